#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "experiments/ablation/grid_plan.h"
#include "experiments/report/grid_result.h"

/// What the folder of a run tells about it. A file that is missing, half-written or foreign is read as "nothing there".
namespace bov::experiments {

/// Why the records in a run's folder do not count as those of the run that is meant.
struct RunMismatch {
  RunStatus status = RunStatus::unreadable;  ///< other_config, other_data or unreadable
  std::string reason;                        ///< "model.n_embd is 64 there and 128 here"
};

/// Whether what lies in `run.folder` counts as `run`: its config.yaml computes the same (config_hash), and the data that
/// its environment.json has recorded are `run.data`. Data that are not known, there or here, are no mismatch. Nothing if
/// the run counts or has not begun. Whoever reads results goes by this; scripts/reporting/standing.py states it in Python.
std::optional<RunMismatch> find_mismatch(const PlannedRun& run);

/// How the run ended, if result.json or failure.json tells; else whether it has begun, or why it does not count.
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
  std::string difference;  ///< "other data (train is ... there and ... here)"
};

/// Makes the folder ready for training `run`: writes config.yaml and removes failure.json. A folder whose
/// records do not count as the run's (find_mismatch) is kept under the first free name <folder>.replaced-<n>, which is returned. Throws
/// std::runtime_error if a process trains in the folder or a file cannot be written.
std::optional<ReplacedRun> prepare_run_folder(const PlannedRun& run);

/// Records in failure.json why the trainer ended; result.json is the trainer's own.
void write_failure(const PlannedRun& run, const std::string& error);

}  // namespace bov::experiments
