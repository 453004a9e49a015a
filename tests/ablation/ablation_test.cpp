#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>
#include <tuple>

#include "experiments/ablation/child_process.h"
#include "experiments/ablation/cuda_devices.h"
#include "experiments/ablation/grid_data.h"
#include "experiments/ablation/grid_folder.h"
#include "experiments/ablation/grid_runner.h"
#include "experiments/ablation/prepare_data.h"
#include "experiments/ablation/run_selection.h"
#include "experiments/ablation/run_state.h"
#include "experiments/config/grid_config.h"
#include "experiments/config/yaml_config.h"
#include "support/catch.h"
#include "support/temporary_folder.h"

namespace bov::experiments {
namespace {

namespace fs = std::filesystem;
using bov::testing::TemporaryFolder;
using namespace std::chrono_literals;

const std::string kFakeTrainer = BOV_FAKE_TRAINER;  // fake_trainer.sh

void write(const fs::path& file, const std::string& text) {
  std::ofstream(file) << text;
}

std::string read(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

bool wait_until(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  while (!condition() && std::chrono::steady_clock::now() < deadline) std::this_thread::sleep_for(10ms);
  return condition();
}

GridConfig grid_of(const std::string& name,
                   const std::vector<std::string>& rows,
                   std::vector<int64_t> seeds) {
  GridConfig grid;
  grid.name = name;
  grid.base.budget.steps = 1;
  for (const std::string& row : rows) {
    grid.rows.push_back(grid.base);
    grid.rows.back().name = row;
  }
  grid.baseline = rows.front();
  grid.seeds = std::move(seeds);
  return grid;
}

// A grid in a folder of its own.
class FakeGrid {
 public:
  FakeGrid(const std::vector<std::string>& rows, const std::vector<int64_t>& seeds)
      : root_(fs::temp_directory_path() / ("bov_ablation_test_" + std::to_string(getpid()))) {
    fs::remove_all(root_);
    fs::create_directories(root_ / "grid");
    plan_ = {.name = "fake",
             .folder = root_ / "grid",
             .baseline = rows.front(),
             .rows = {},
             .seeds = seeds,
             .runs = {}};
    for (const std::string& name : rows) {
      plan_.rows.push_back({.name = name,
                            .paper_row = "",
                            .paper_value = {},
                            .formula = "V",
                            .layers = "-",
                            .coefficient = "-",
                            .parameters = 100,
                            .flops_per_token = 600,
                            .steps = 10,
                            .tokens_per_step = 64});
    }
    for (const int64_t seed : seeds) {
      for (size_t row = 0; row < rows.size(); ++row) add_run(row, seed, 10);
    }
  }
  ~FakeGrid() { fs::remove_all(root_); }

  // A run whose config differs with `steps`.
  void add_run(size_t row, int64_t seed, int64_t steps) {
    RunConfig config;
    config.name = plan_.rows[row].name;
    config.data.shards = "shards";
    config.train.seed = seed;
    config.budget.steps = steps;
    PlannedRun run{.row = row,
                   .seed = seed,
                   .folder = plan_.folder / config.name / ("seed-" + std::to_string(seed)),
                   .config = config,
                   .shards = root_ / "shards",
                   .data = nullptr};
    std::ofstream(root_ / "hashes", std::ios::app)
        << run.folder.string() << ' ' << config_hash(config) << '\n';
    plan_.runs.push_back(std::move(run));
  }

  GridOutcome train(int64_t jobs = 2, std::vector<std::string> devices = {}) const {
    GridConsole console(ProgressStyle::none);
    const GridRunnerOptions options{.trainer_command = {kFakeTrainer, (root_ / "hashes").string()},
                                    .jobs = jobs,
                                    .threads = 3,
                                    .devices = std::move(devices)};
    return run_grid(plan_, plan_.runs, options, console);
  }

  // Trains in a process of its own, whose id is returned.
  pid_t train_in_process() const {
    const pid_t process = fork();
    if (process == 0) {
      std::signal(SIGINT, SIG_DFL);
      std::signal(SIGTERM, SIG_DFL);
      _exit(train().signal);
    }
    return process;
  }

  GridPlan& plan() { return plan_; }
  fs::path folder(const std::string& row, int64_t seed = 1) const {
    return plan_.folder / row / ("seed-" + std::to_string(seed));
  }
  int64_t starts(const std::string& row, int64_t seed = 1) const {
    const std::string text = read(folder(row, seed) / "starts");
    return std::count(text.begin(), text.end(), '\n');
  }

 private:
  fs::path root_;
  GridPlan plan_;
};

}  // namespace

TEST_CASE("Shards cover every run exactly once and keep the order") {
  FakeGrid grid({"a", "b", "c", "d", "e"}, {1, 2, 3});
  std::multiset<std::string> seen;
  for (int64_t index = 1; index <= 4; ++index) {
    for (const PlannedRun& run : select_runs(grid.plan(), {{}, {}, {index, 4}})) seen.insert(run.folder);
  }
  std::multiset<std::string> expected;
  for (const PlannedRun& run : grid.plan().runs) expected.insert(run.folder);
  CHECK(seen == expected);
  CHECK(seen.size() == 15);

  const auto only = select_runs(grid.plan(), {{"d", "b"}, {}, {}});
  REQUIRE(only.size() == 6);
  CHECK(run_label(grid.plan(), only[0]) == "b seed 1");
  CHECK(run_label(grid.plan(), only[1]) == "d seed 1");
  CHECK(run_label(grid.plan(), only[2]) == "b seed 2");
  const auto seeds = select_runs(grid.plan(), {{"d", "b"}, {3}, {2, 2}});
  REQUIRE(seeds.size() == 1);
  CHECK(run_label(grid.plan(), seeds[0]) == "d seed 3");
  CHECK_THROWS_WITH(select_runs(grid.plan(), {{"f"}, {}, {}}),
                    Catch::Contains("no row \"f\"; its rows are a, b, c, d, e"));
}

TEST_CASE("A shard is i/n with i between 1 and n") {
  CHECK(parse_shard("2/4").index == 2);
  CHECK(parse_shard("2/4").count == 4);
  for (const char* text : {"", "2", "0/4", "5/4", "2/", "/4", "2/4x", "a/b", "-1/2"}) {
    CHECK_THROWS_WITH(parse_shard(text), Catch::Contains("expected i/n"));
  }
}

TEST_CASE("Every run is trained, tables are written, and a second start trains nothing") {
  FakeGrid grid({"a", "b"}, {1, 2});
  const GridOutcome first = grid.train();
  CHECK(first.completed == 4);
  CHECK(first.skipped == 0);
  CHECK(first.failed.empty());
  CHECK(read(grid.folder("a") / "environment") == "3 3 none\n");
  const auto table = nlohmann::json::parse(read(grid.plan().folder / "table.json"));
  CHECK(table.at("rows").at(1).at("bits_per_byte").at("mean") == 1.25);
  CHECK(table.at("rows").at(1).at("coefficients").at("gamma").at("8") == 0.5);

  const GridOutcome second = grid.train();
  CHECK(second.completed == 0);
  CHECK(second.skipped == 4);
  CHECK(grid.starts("a") == 1);
}

TEST_CASE("A failing run does not stop the others and its last error line is reported") {
  FakeGrid grid({"a", "bad", "crash", "silent", "diverging", "b"}, {1});
  const GridOutcome outcome = grid.train(1);
  CHECK(outcome.completed == 2);
  CHECK(outcome.failed ==
        std::vector<std::string>{"bad seed 1", "crash seed 1", "silent seed 1", "diverging seed 1"});
  CHECK(outcome.signal == 0);
  const GridResult result = read_grid_result(grid.plan());
  CHECK(result.rows[1].runs[0].error == "bov: data.shards is 3");
  CHECK(result.rows[2].runs[0].error == "killed by signal Killed");
  CHECK(result.rows[3].runs[0].error == "the trainer ended without a result");
  CHECK(result.rows[4].runs[0].error == "step 4: the loss is nan");
  CHECK_THAT(read(grid.plan().folder / "table.md"), Catch::Contains("1 failed: bov: data.shards is 3"));
  CHECK(result.rows[5].runs[0].status == RunStatus::complete);

  // They are tried again, and the log keeps what the first try said.
  CHECK(grid.train(1).failed.size() == 4);
  CHECK(grid.starts("bad") == 2);
  CHECK(read(grid.folder("bad") / "log.txt") == "bov: data.shards is 3\n\nbov: data.shards is 3\n\n");
}

TEST_CASE("A trainer that cannot be started is a failed run") {
  FakeGrid grid({"a"}, {1});
  GridConsole console(ProgressStyle::none);
  const GridRunnerOptions options{
      .trainer_command = {"/no/such/trainer"}, .jobs = 1, .threads = 1, .devices = {}};
  const GridOutcome outcome = run_grid(grid.plan(), grid.plan().runs, options, console);
  CHECK(outcome.failed.size() == 1);
  CHECK(read_run_result(grid.plan().runs[0]).error ==
        "/no/such/trainer: cannot be started: No such file or directory");
}

TEST_CASE("Each job gets a device of its own") {
  FakeGrid grid({"a", "b", "c"}, {1});
  CHECK(grid.train(2, {"5", "7"}).completed == 3);
  std::set<std::string> devices;
  for (const char* row : {"a", "b"}) devices.insert(read(grid.folder(row) / "environment"));
  CHECK(devices == std::set<std::string>{"3 3 5 --device cuda\n", "3 3 7 --device cuda\n"});
}

TEST_CASE("A device is the index of a GPU that exists, as this process counts them") {
  using Devices = std::vector<std::string>;
  CHECK(visible_cuda_devices({"2", "0"}, 4, nullptr) == Devices{"2", "0"});
  CHECK(visible_cuda_devices({"1", "0"}, 2, "6,GPU-1f") == Devices{"GPU-1f", "6"});
  for (const std::string text : {"", "x", "-1", "4", "1x", " 1", "99999999999999999999"}) {
    CHECK_THROWS_WITH(visible_cuda_devices({"0", text}, 4, nullptr),
                      Catch::Contains("--devices names \"" + text +
                                      "\"; LibTorch sees 4 CUDA devices, "
                                      "expected indices from 0 to 3"));
  }
  CHECK_THROWS_WITH(visible_cuda_devices({"0"}, 0, nullptr), Catch::EndsWith("LibTorch sees 0 CUDA devices"));
  CHECK_THROWS_WITH(visible_cuda_devices({"1", "0", "1"}, 2, nullptr), Catch::Contains("names 1 twice"));
  CHECK(visible_cuda_devices({}).empty());
}

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

TEST_CASE("A grid goes on in its folder with all that is there, and another grid is refused") {
  const TemporaryFolder folder;
  const fs::path root = folder / "grid";
  const auto go_on = [&](const GridConfig& grid) { return go_on_in_folder(grid, "new.yaml", root); };
  const GridConfig first = grid_of("first", {"a", "b"}, {1, 2});
  CHECK(go_on(first) == first);
  CHECK_FALSE(fs::exists(root));
  join_grid_folder(first, "new.yaml", root);
  CHECK(go_on(first) == first);
  CHECK(go_on(grid_of("first", {"a", "b"}, {3, 1})).seeds == std::vector<int64_t>{1, 2, 3});
  CHECK(go_on(grid_of("first", {"b", "c", "a"}, {1, 2})).rows.size() == 3);
  const std::string there = (root / "grid.yaml").string();
  CHECK_THROWS_WITH(go_on(grid_of("second", {"a", "b"}, {1})),
                    Catch::Contains(there + " is the grid \"first\", and new.yaml the grid \"second\"; "
                                            "choose another --out"));
  CHECK_THROWS_WITH(go_on(grid_of("first", {"c"}, {1})),
                    Catch::Contains(there + " has rows that new.yaml lacks: a, b; choose another --out"));
  write(root / "grid.yaml", "rows: 3\n");
  CHECK_THROWS_WITH(go_on(first), Catch::Contains(there + ":1"));
}

TEST_CASE("Processes that begin in one folder at the same time lose no seed") {
  const TemporaryFolder folder;
  const std::vector<int64_t> all{1, 2, 3, 4};
  for (int round = 0; round < 20; ++round) {
    const fs::path root = folder / ("grid-" + std::to_string(round));
    int gate[2];  // a pipe: all of them go when its end for writing is closed
    REQUIRE(pipe(gate) == 0);
    std::vector<pid_t> processes;
    for (const int64_t seed : all) {
      processes.push_back(fork());
      if (processes.back() != 0) continue;
      close(gate[1]);
      char none;
      if (::read(gate[0], &none, 1) != 0) _exit(2);
      try {
        join_grid_folder(grid_of("one", {"a"}, {seed}), "new.yaml", root);
      } catch (const std::exception&) {
        _exit(1);
      }
      _exit(0);
    }
    close(gate[0]);
    close(gate[1]);
    for (const pid_t process : processes) {
      int status = 0;
      waitpid(process, &status, 0);
      CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
    }
    std::vector<int64_t> seeds = load_grid_config(root / "grid.yaml").seeds;
    std::ranges::sort(seeds);
    CHECK(seeds == all);
  }
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

TEST_CASE("A signal reaches the trainers, which stop, and nothing new starts") {
  FakeGrid grid({"slow", "later"}, {1});
  std::thread sender([&grid] {
    wait_until([&grid] { return fs::exists(grid.folder("slow") / "metrics.jsonl"); });
    kill(getpid(), SIGTERM);
  });
  const GridOutcome outcome = grid.train(1);
  sender.join();
  CHECK(outcome.signal == SIGTERM);
  CHECK(outcome.failed.empty());
  CHECK(outcome.completed == 0);
  CHECK(read(grid.folder("slow") / "stops") == "x\n");
  CHECK_FALSE(fs::exists(grid.folder("later")));
  CHECK(read_run_result(grid.plan().runs[0]).status == RunStatus::unfinished);
}

TEST_CASE("A second signal ends the program and its trainers at once") {
  FakeGrid grid({"stubborn"}, {1});
  const pid_t process = grid.train_in_process();
  const fs::path stops = grid.folder("stubborn") / "stops";
  REQUIRE(wait_until([&] { return fs::exists(grid.folder("stubborn") / "metrics.jsonl"); }));
  kill(process, SIGTERM);
  REQUIRE(wait_until([&] { return read(stops) == "x\n"; }));
  kill(process, SIGTERM);
  int status = 0;
  waitpid(process, &status, 0);
  CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM));
  CHECK(wait_until([&] { return read(stops) == "x\nx\n"; }));
}

TEST_CASE("Trainers do not outlive a killed program") {
  FakeGrid grid({"slow"}, {1});
  const pid_t process = grid.train_in_process();
  REQUIRE(wait_until([&] { return fs::exists(grid.folder("slow") / "metrics.jsonl"); }));
  kill(process, SIGKILL);
  waitpid(process, nullptr, 0);
  CHECK(wait_until([&] { return read(grid.folder("slow") / "stops") == "x\n"; }));
}

TEST_CASE("Data is prepared once, and again only where its inputs change") {
  const fs::path root = fs::temp_directory_path() / ("bov_prepare_test_" + std::to_string(getpid()));
  fs::remove_all(root);
  fs::create_directories(root);
  // 400 documents of 40 pseudo-random words: enough for a vocabulary of 310 and a validation split of 5 %.
  std::ofstream source(root / "source.jsonl");
  uint32_t random = 1;
  for (int document = 0; document < 400; ++document) {
    source << "{\"text\": \"";
    for (int letter = 0; letter < 240; ++letter) {
      random = random * 1664525 + 1013904223;
      source << (letter % 6 == 5 ? ' ' : static_cast<char>('a' + (random >> 24) % 20));
    }
    source << "\"}\n";
  }
  source.close();
  const std::vector<std::string> fetch{"/bin/sh", "-c",
                                       "cp '" + (root / "source.jsonl").string() +
                                           "' \"$2/text.jsonl\"; echo x >> '" + (root / "fetches").string() +
                                           "'",
                                       "fetch"};
  GridConfig grid;
  grid.base.model.vocab_size = 300;
  grid.base.data.shards = "shards";
  grid.prepare = PrepareConfig{"quick", "text", "tokenizer"};
  set_data_folder(grid, root);
  CHECK(grid.base.data.shards == root / "shards");
  Progress progress(ProgressStyle::none);

  prepare_data(grid, fetch, progress);
  const auto manifest = nlohmann::json::parse(read(root / "shards/manifest.json"));
  const auto first_written = fs::last_write_time(root / "shards/manifest.json");
  const std::string first_tokenizer = read(root / "tokenizer/tokenizer.model");
  CHECK(manifest.at("validation").at("documents").get<int64_t>() > 10);

  prepare_data(grid, fetch, progress);
  CHECK(fs::last_write_time(root / "shards/manifest.json") == first_written);
  CHECK(read(root / "fetches") == "x\n");

  grid.base.model.vocab_size = 310;
  prepare_data(grid, fetch, progress);
  CHECK(read(root / "tokenizer/tokenizer.model") != first_tokenizer);
  CHECK(fs::last_write_time(root / "shards/manifest.json") != first_written);
  CHECK(read(root / "fetches") == "x\n");

  grid.prepare->corpus = "core";
  CHECK_THROWS_WITH(
      prepare_data(grid, fetch, progress),
      Catch::Contains("made from {\"profile\":\"quick\"}, but the grid asks for {\"profile\":\"core\"}"));
  fs::remove_all(root / "text");
  CHECK_THROWS_WITH(
      prepare_data(grid, {"/bin/sh", "-c", "echo start; echo no network >&2; exit 1"}, progress),
      Catch::Contains("/bin/sh failed: no network"));
  fs::remove_all(root);
}

TEST_CASE("A child tells how it ended") {
  const fs::path log = fs::temp_directory_path() / ("bov_child_" + std::to_string(getpid()));
  const auto end_of = [&log](const std::string& script) {
    ChildProcess child({.command = {"/bin/sh", "-c", script}, .environment = {{"WORD", "set"}}, .log = log});
    REQUIRE(wait_until([&child] { return child.poll().has_value(); }));
    return *child.poll();
  };
  CHECK(end_of("echo $WORD; read line && exit 4; exit 3").status == 3);  // nothing to read
  CHECK(end_of("kill -TERM $$").signal == SIGTERM);
  CHECK(end_of("true").succeeded());
  CHECK(read(log) == "set\n");
  fs::remove(log);
}

}  // namespace bov::experiments
