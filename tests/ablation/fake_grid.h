#pragma once

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "experiments/ablation/grid_runner.h"
#include "experiments/config/yaml_config.h"
#include "support/catch.h"

/// What the tests of grids share.
namespace bov::experiments {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

inline const std::string kFakeTrainer = BOV_FAKE_TRAINER;  // fake_trainer.sh

inline void write(const fs::path& file, const std::string& text) {
  std::ofstream(file) << text;
}

inline std::string read(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

inline bool wait_until(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  while (!condition() && std::chrono::steady_clock::now() < deadline) std::this_thread::sleep_for(10ms);
  return condition();
}

/// A grid in a folder of its own, whose trainer is fake_trainer.sh.
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

  /// A run whose config differs with `steps`.
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

  /// Trains in a process of its own, whose id is returned.
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

}  // namespace bov::experiments
