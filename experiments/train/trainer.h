#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>

#include "bov/io/safetensors.h"
#include "bov/model/gpt.h"
#include "bov/optim/training_optimizer.h"
#include "experiments/config/run_config.h"
#include "experiments/data/data_folder.h"
#include "experiments/data/packing_loader.h"
#include "experiments/eval/validation.h"

namespace bov::experiments {

/// A NaN or Inf turned up: the message names the step and the first bad tensor.
class DivergedError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Everything that the next steps depend on.
struct TrainerState {
  TensorMap model;
  TensorMap optimizer;
  int64_t step = 0;
  nlohmann::json loader;
};

/// Model, optimizer and data position of one run. Knows nothing of files: TrainingRun keeps them. All randomness is
/// spent when it is built (initial parameters) or belongs to the loader, so on a CPU equal states continue bit for bit
/// alike.
class Trainer {
 public:
  /// `data` must outlive the trainer. Parameters are drawn on the CPU whatever the device, so a seed means the same
  /// model everywhere. Throws std::invalid_argument if tokens_per_step is no multiple of micro_batch·sequence_length or
  /// the data's vocabulary is larger than the model's.
  Trainer(RunConfig config, const DataFolder& data, c10::Device device);

  /// One optimizer step over tokens_per_step tokens, in micro-batches whose gradients are summed in the dtype of each
  /// parameter, as published. Returns the mean loss in nats a token. Throws DivergedError.
  double step();

  int64_t steps_done() const { return steps_done_; }
  int64_t total_steps() const { return schedule_.steps; }
  int64_t tokens_per_step() const { return config_.train.tokens_per_step; }
  /// Training FLOPs a step, as the published code counts them.
  double flops_per_step() const;
  /// Rates that the last step used (before the first step: that it will use).
  std::map<std::string, double> rates() const;
  /// Bits per byte on the validation split; nothing if `stop` ended it. Throws DivergedError.
  std::optional<ValidationResult> validate(const std::function<bool()>& stop = {});

  /// The tensors share memory with the trainer: write or clone them before the next step. Throws DivergedError if a
  /// parameter is not finite.
  TrainerState state();
  void restore(const TrainerState& state);

  GPT& model() { return model_; }
  c10::Device device() const { return device_; }

 private:
  std::string after_step() const;
  void check_finite(double value, const std::string& name);

  RunConfig config_;
  const DataFolder& data_;
  c10::Device device_;
  GPT model_;
  TrainingSchedule schedule_;
  TrainingOptimizer optimizer_;
  PackingLoader loader_;
  int64_t micro_batches_;
  int64_t steps_done_ = 0;
};

/// How the validation split is read for a run of this config.
ValidationOptions validation_options(const RunConfig& config);

}  // namespace bov::experiments
