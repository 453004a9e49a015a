#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/ablation/grid_console.h"
#include "experiments/ablation/grid_plan.h"

namespace bov::experiments {

struct GridRunnerOptions {
  /// The trainer; "<run>/config.yaml --run-dir <run> --threads <threads> --quiet" is appended,
  /// and "--device cuda" with devices.
  std::vector<std::string> trainer_command{"/proc/self/exe", "train"};
  int64_t jobs = 1;                  ///< runs side by side
  int64_t threads = 1;               ///< of each run
  std::vector<std::string> devices;  ///< one GPU a job, as CUDA_VISIBLE_DEVICES takes it; empty: unchanged
};

/// What became of the selected runs.
struct GridOutcome {
  int64_t skipped = 0;  ///< had finished before
  int64_t completed = 0;
  std::vector<std::string> failed;  ///< labels
  int signal = 0;                   ///< SIGINT or SIGTERM if it stopped the grid, else 0
};

/// Trains `runs`, `options.jobs` at a time, each in a process of its own whose output goes to <run>/log.txt. Finished
/// runs are skipped, begun ones continue, a failing one does not stop the others. After each run that ends, the tables in
/// the grid's folder are rewritten. The first SIGINT or SIGTERM is passed on to the trainers, which write a checkpoint and
/// end, and nothing new is started; a second one ends this process and its trainers at once.
GridOutcome run_grid(const GridPlan& plan,
                     const std::vector<PlannedRun>& runs,
                     const GridRunnerOptions& options,
                     GridConsole& console);

}  // namespace bov::experiments
