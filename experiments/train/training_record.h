#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "experiments/config/run_config.h"
#include "experiments/train/metrics_log.h"
#include "experiments/train/progress.h"
#include "experiments/train/run_folder.h"
#include "experiments/train/trainer.h"

/// What a run has come to, and how that is written down: in rows of its log, in its result, in its checkpoints.
namespace bov::experiments {

/// Of all processes of the run together.
struct RunTally {
  double training_seconds = 0;  ///< in optimizer steps
  double evaluation_seconds = 0;
  nlohmann::json loss;  ///< of the newest step, nats a token; null before the first

  double seconds() const { return training_seconds + evaluation_seconds; }
};

/// "step", "tokens", "flops" and "time", which every row of metrics.jsonl has.
nlohmann::json metrics_row(const Trainer& trainer, const RunTally& tally);

/// result.json of a run that ended as `status` says, with the newest evaluation and coefficients of its log.
nlohmann::json run_result(const std::string& status,
                          const RunConfig& config,
                          const Trainer& trainer,
                          const MetricsLog& log,
                          const RunTally& tally);

/// Writes a checkpoint into the run's folder and removes older ones than the newest `keep`. Throws as
/// bov::save_checkpoint.
void save_training(const RunFolder& folder, Trainer& trainer, const RunTally& tally, int64_t keep);

/// Gives `trainer` and `tally` what the newest sound checkpoint in the folder holds and returns its path; nothing if there
/// is none. `progress` is told which were skipped. Throws std::runtime_error naming a checkpoint of another config, or a
/// damaged one.
std::optional<std::filesystem::path> restore_training(const RunFolder& folder,
                                                      Trainer& trainer,
                                                      RunTally& tally,
                                                      Progress& progress);

}  // namespace bov::experiments
