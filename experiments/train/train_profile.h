#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "experiments/config/run_config.h"
#include "experiments/train/operator_profile.h"

namespace bov::experiments {

/// Speed of a training step on the CPU and where its time goes.
struct TrainProfile {
  int64_t steps = 0;
  int64_t threads = 0;
  double tokens_per_second = 0;  ///< without the profiler
  double model_flop_rate = 0;    ///< executed forward and backward FLOPs a second, without the profiler
  double matmul_rate = 0;        ///< FLOPs a second of a large matrix product in this process
  OperatorProfile operators;     ///< of as many further steps, with the profiler
  int64_t peak_memory_bytes = 0;
};

/// Two steps to warm up, `steps` that are timed, `steps` that are profiled. `wanted` (if not empty) stands for
/// train.device: auto. Writes no file. Throws std::invalid_argument for a GPU, whose kernels the operator profile does not
/// see.
TrainProfile profile_training(const RunConfig& config, int64_t steps, const std::string& wanted);

std::string to_text(const TrainProfile& profile);
nlohmann::json to_json(const TrainProfile& profile);

}  // namespace bov::experiments
