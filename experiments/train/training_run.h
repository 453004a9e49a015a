#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "experiments/config/run_config.h"
#include "experiments/data/data_folder.h"
#include "experiments/train/metrics_log.h"
#include "experiments/train/progress.h"
#include "experiments/train/run_folder.h"
#include "experiments/train/stop_signal.h"
#include "experiments/train/trainer.h"

namespace bov::experiments {

struct TrainingRequest {
  RunConfig config;
  std::filesystem::path folder;  ///< the run's folder
  bool fresh = false;            ///< replace an earlier run instead of going on with it
  std::string device;            ///< instead of train.device: auto; empty: as the config says
  ProgressStyle progress = ProgressStyle::none;
};

enum class TrainingStatus {
  completed,
  interrupted,  ///< by a signal: a checkpoint was written, the same command goes on from it
  diverged,     ///< a NaN or Inf turned up
};

struct TrainingOutcome {
  TrainingStatus status = TrainingStatus::completed;
  int signal = 0;         ///< that interrupted
  bool was_over = false;  ///< nothing was done: the folder held the result already
  nlohmann::json result;  ///< result.json; null if interrupted
  std::string message;    ///< one sentence on how it ended
};

/// Trains a config in its folder from where the folder stands to the end. metrics.jsonl gets a row each log interval
/// ("step", "tokens", "flops", "loss", "rates" by role, "tokens_per_second", "time", at its own interval
/// "coefficients") and one for each evaluation ("validation_bpb", ...); "time" is seconds of training and evaluation
/// since the run began, over all its processes. A run that was killed and resumed leaves the same files as one that
/// was not, apart from "tokens_per_second", "time" and environment.json.
///
/// SIGINT and SIGTERM end it after a checkpoint, a second one at once. Throws std::runtime_error for a bad config, device,
/// data or folder, before an earlier run is touched or a new one begun, and when something cannot be written; earlier
/// checkpoints stay loadable.
TrainingOutcome run_training(const TrainingRequest& request);

}  // namespace bov::experiments
