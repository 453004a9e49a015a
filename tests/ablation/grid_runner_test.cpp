#include "experiments/ablation/grid_runner.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "ablation/fake_grid.h"
#include "experiments/ablation/child_process.h"
#include "experiments/ablation/run_state.h"

namespace bov::experiments {

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
