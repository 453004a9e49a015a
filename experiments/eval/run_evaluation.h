#pragma once

#include "experiments/data/data_folder.h"
#include "experiments/eval/validation.h"
#include "experiments/train/run_model.h"

namespace bov::experiments {

/// Bits per byte on one validation split, of any number of models, over the same targets.
class RunEvaluation {
 public:
  /// The split, the number of targets and the device are those that `run.config` names. Throws std::runtime_error if they
  /// are not there, or if the run was trained with another tokenizer.
  explicit RunEvaluation(const RunCheckpoint& run);

  c10::Device device() const { return device_; }
  /// `model` must be on device(). Throws as evaluate().
  ValidationResult of(GPT& model) const;
  /// Throws as evaluate() and load_run_model().
  ValidationResult of(const RunCheckpoint& run) const;

 private:
  c10::Device device_;
  DataFolder data_;
  ValidationOptions options_;
};

}  // namespace bov::experiments
