#include "experiments/ablation/run_state.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "ablation/fake_grid.h"
#include "experiments/ablation/grid_data.h"
#include "experiments/config/yaml_config.h"

namespace bov::experiments {

TEST_CASE("A run of other data is neither compared nor gone on with") {
  FakeGrid grid({"a", "b"}, {1});
  CHECK(grid.train().completed == 2);
  const nlohmann::json there{{"train", "11"}, {"validation", "22"}};
  const nlohmann::json here{{"train", "33"}, {"validation", "22"}};
  write(grid.folder("a") / "environment.json", nlohmann::json{{"data", there}}.dump());
  write(grid.folder("b") / "environment.json", nlohmann::json{{"data", here}}.dump());

  // The data folder is not here: what the first finished run has recorded is what the others must have read.
  find_data(grid.plan(), grid.plan().runs);
  CHECK(grid.plan().runs[1].data == there);
  const RunResult other = read_run_result(grid.plan().runs[1]);
  CHECK(other.status == RunStatus::other_data);
  CHECK(other.error == "train is \"33\" there and \"11\" here");
  CHECK_FALSE(all_finished(grid.plan().runs));
  CHECK_THROWS_WITH(
      require_data(grid.plan(), grid.plan().runs),
      Catch::Contains("b seed 1 other data: train is \"33\" there and \"11\" here; no finished data"));
  write(grid.folder("b") / "environment.json", nlohmann::json{{"data", there}}.dump());
  find_data(grid.plan(), grid.plan().runs);
  CHECK(grid.train().skipped == 2);
  CHECK(all_finished(grid.plan().runs));
  CHECK_NOTHROW(require_data(grid.plan(), grid.plan().runs));

  // A record without data is not known to be of others.
  write(grid.folder("b") / "environment.json", "{}");
  const RunResult unknown = read_run_result(grid.plan().runs[1]);
  CHECK(unknown.status == RunStatus::complete);
  CHECK_FALSE(unknown.data_recorded);
  write(grid.folder("b") / "environment.json", nlohmann::json{{"data", there}}.dump());

  // It is here and holds something else.
  for (PlannedRun& run : grid.plan().runs) run.data = here;
  CHECK(read_run_result(grid.plan().runs[0]).status == RunStatus::other_data);
  const auto replaced = prepare_run_folder(grid.plan().runs[0]);
  REQUIRE(replaced);
  CHECK(replaced->difference == "other data (train is \"11\" there and \"33\" here)");
  CHECK(fs::exists(replaced->folder / "result.json"));
  CHECK(grid.train().completed == 2);
}

TEST_CASE("A result with entries of other types is read as nothing there") {
  FakeGrid grid({"a"}, {1});
  CHECK(grid.train().completed == 1);
  const PlannedRun& run = grid.plan().runs[0];
  for (const char* text :
       {"{\"status\": \"completed\", \"validation_bpb\": 1.0, \"tokens_per_second\": \"fast\"}",
        "{\"status\": \"completed\", \"validation_bpb\": 1.0, \"coefficients\": {\"x\": {\"gamma\": 1}}}",
        "{\"status\": 3}"}) {
    write(run.folder / "result.json", text);
    CHECK(read_run_result(run).status == RunStatus::unfinished);
  }
  write(run.folder / "metrics.jsonl",
        "{\"step\": \"three\", \"loss\": 2.5}\n{\"step\": 4, \"loss\": null}\n");
  CHECK_FALSE(read_newest_step(run.folder).has_value());
}

TEST_CASE("A run of another config is kept aside, one of the same config goes on") {
  FakeGrid grid({"a", "b"}, {1});
  CHECK(grid.train().completed == 2);
  const std::string old_result = read(grid.folder("a") / "result.json");
  fs::remove(grid.folder("b") / "result.json");  // as if b had been killed
  grid.plan().runs.erase(grid.plan().runs.begin());
  write(grid.plan().folder.parent_path() / "hashes", "");
  grid.add_run(0, 1, 11);
  grid.add_run(1, 1, 10);
  grid.plan().runs.erase(grid.plan().runs.begin());
  const GridOutcome outcome = grid.train();
  CHECK(outcome.completed == 2);
  CHECK(grid.starts("a") == 1);
  CHECK(grid.starts("b") == 2);
  CHECK(read(grid.folder("a").string() + ".replaced-1/result.json") == old_result);
  CHECK_FALSE(fs::exists(grid.folder("b").string() + ".replaced-1"));
}

TEST_CASE("A damaged data folder stops those alone who read it") {
  FakeGrid grid({"a", "b"}, {1});
  const fs::path damaged = grid.plan().folder.parent_path() / "damaged";
  fs::create_directories(damaged);
  write(damaged / "manifest.json", "{\"format\": ");
  grid.plan().runs[1].shards = damaged;
  const std::vector<PlannedRun> a{grid.plan().runs[0]};
  CHECK_NOTHROW(find_data(grid.plan(), a));
  CHECK_THROWS_WITH(find_data(grid.plan(), grid.plan().runs),
                    Catch::StartsWith((damaged / "manifest.json").string() + " is damaged"));
}

TEST_CASE("Half-written and foreign files are read as nothing there") {
  FakeGrid grid({"a"}, {1});
  const PlannedRun& run = grid.plan().runs[0];
  CHECK(read_run_result(run).status == RunStatus::missing);
  CHECK_FALSE(read_newest_step(run.folder).has_value());
  CHECK(last_log_line(run.folder).empty());
  fs::create_directories(run.folder);
  write(run.folder / "config.yaml", write_run_config(run.config));
  write(run.folder / "metrics.jsonl",
        "{\"step\": 3, \"loss\": 2.5}\n{\"step\": 4, \"validation_bpb\": 1.0}\n{\"step\": 5, \"lo");
  CHECK(read_newest_step(run.folder)->step == 3);
  CHECK(read_newest_step(run.folder)->loss == 2.5);
  for (const char* text : {"{\"status\": \"compl", "[]", ""}) {
    write(run.folder / "result.json", text);
    CHECK(read_run_result(run).status == RunStatus::unfinished);
  }
  // A result counts with the config beside it alone.
  write(run.folder / "result.json", "{\"status\": \"completed\", \"validation_bpb\": 1.0}");
  CHECK(read_run_result(run).status == RunStatus::complete);
  for (const auto& [config, status, reason] :
       {std::tuple{"budget: {steps: 3}\n", RunStatus::other_config, "budget.steps is 3 there and 10 here"},
        {"budget: 3\n", RunStatus::unreadable, "config.yaml:1"},
        {"", RunStatus::unreadable, "config.yaml:1"}}) {
    write(run.folder / "config.yaml", config);
    CHECK(read_run_result(run).status == status);
    CHECK_THAT(read_run_result(run).error, Catch::Contains(reason));
  }
  fs::remove(run.folder / "config.yaml");
  CHECK(read_run_result(run).status == RunStatus::unreadable);
  CHECK(read_run_result(run).error == "result.json without config.yaml");
  // It does not pass for a result of the config that is put beside it.
  CHECK(prepare_run_folder(run)->difference == "unreadable records (result.json without config.yaml)");
}

}  // namespace bov::experiments
