#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <string>

#include "bov/model/gpt_options.h"
#include "experiments/config/run_config.h"

/// What a RunConfig means for the library.
namespace bov::experiments {

/// `train.device` as a device: `auto` is CUDA if there is one, else the CPU. Throws std::runtime_error if
/// CUDA is asked for and missing.
c10::Device resolve_device(const TrainConfig& train);

/// The same with `wanted` (if not empty) in place of `auto`. Throws std::runtime_error if the config names another one.
c10::Device resolve_device(TrainConfig train, const std::string& wanted);

/// Options of the model on a device of type `device`, which decides the `auto` dtypes: bfloat16 on CUDA,
/// float32 elsewhere.
GPTOptions to_gpt_options(const RunConfig& config, c10::DeviceType device);

/// `optimizer.muon_dtype` with `auto` decided by the device as above.
torch::Dtype resolve_muon_dtype(const OptimizerConfig& optimizer, c10::DeviceType device);

/// Optimizer steps of the budget: flops as the published script rounds (steps_for_flops), tokens to the
/// nearest whole step, at least one. Throws std::runtime_error unless exactly one of the three budgets is
/// set.
int64_t resolve_steps(const RunConfig& config);

}  // namespace bov::experiments
