#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "experiments/ablation/grid_plan.h"
#include "experiments/report/grid_result.h"

/// What the folder of a run tells about it. A file that is missing, half-written or foreign is read as "nothing there".
namespace bov::experiments {

/// How the run in `folder` ended, if result.json or failure.json tells; else whether it has begun.
RunResult read_run_folder(const std::filesystem::path& folder, int64_t seed);

/// The same for a run of a grid. The run in its folder counts only if its config.yaml computes the same and it read the
/// same data; else the run is missing.
RunResult read_run_result(const PlannedRun& run);

/// The results of every run of the grid, whoever computed them.
GridResult read_grid_result(const GridPlan& plan);

/// Newest training step in metrics.jsonl and its loss in nats a token.
struct RunStep {
  int64_t step = 0;
  double loss = 0.0;
};
std::optional<RunStep> read_newest_step(const std::filesystem::path& run_folder);

/// Last line of log.txt that is not blank; empty if there is none.
std::string last_log_line(const std::filesystem::path& run_folder);

/// A run that was in the way, kept under another name.
struct ReplacedRun {
  std::filesystem::path folder;
  std::string
      difference;  ///< "another config", "other data (train is ... there and ... here)", or what is unreadable
};

/// Makes the folder ready for training `run`: writes config.yaml and removes failure.json. A folder that holds a run of
/// another config or of other data is kept under the first free name <folder>.replaced-<n>, which is returned. Throws
/// std::runtime_error if a process trains in the folder or a file cannot be written.
std::optional<ReplacedRun> prepare_run_folder(const PlannedRun& run);

/// Records in failure.json why the trainer ended; result.json is the trainer's own.
void write_failure(const PlannedRun& run, const std::string& error);

}  // namespace bov::experiments
