#pragma once

#include <ATen/core/Tensor.h>
#include <torch/ordered_dict.h>
#include <torch/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "bov/export.h"
#include "bov/optim/adamw.h"
#include "bov/optim/muon.h"
#include "bov/optim/parameter_groups.h"
#include "bov/optim/schedules.h"

namespace bov {

/// The published optimizer of a GPT: AdamW and Muon over published_parameter_groups(), every rate on its
/// schedule.
///
///     bov::TrainingOptimizer optimizer(model->named_parameters(), 768, {}, {.steps = 3838}, torch::kFloat32);
///     for (int64_t it = 0; it < 3838; ++it) {
///       optimizer.zero_grad();
///       loss(it).backward();
///       optimizer.step(it);
///     }
///
/// Parameters without a gradient are skipped. The state of all parameters is allocated at construction.
class BOV_API TrainingOptimizer {
 public:
  /// `muon_dtype`: dtype of the orthogonalisation. Throws c10::Error naming a parameter without a role, a bad
  /// schedule or a bad rate.
  TrainingOptimizer(const torch::OrderedDict<std::string, at::Tensor>& named_parameters,
                    int64_t n_embd,
                    const OptimizerRates& rates,
                    const TrainingSchedule& schedule,
                    torch::Dtype muon_dtype);

  /// Drops every gradient.
  void zero_grad();

  /// One update with the rates of iteration `it`. Throws c10::Error unless 0 <= it < schedule steps.
  void step(int64_t it);

  /// Learning rate of a role at iteration `it`. Throws c10::Error if the model has no parameter of that role.
  double learning_rate(ParameterRole role, int64_t it) const;

  /// Every rate at iteration `it`, for logs: the learning rate under the name of each role that the model
  /// has, and "muon_momentum" and "muon_weight_decay". Throws c10::Error for an iteration out of range.
  std::map<std::string, double> rates(int64_t it) const;

  /// All state by parameter name: `<name>.exp_avg`, `<name>.exp_avg_sq` (the parameter's shape and dtype) and
  /// `<name>.step` (int64 scalar) for AdamW, `<name>.momentum_buffer` and `<name>.second_moment` for Muon.
  /// The tensors share memory with the optimizer, steps apart: write or clone them before the next step.
  std::map<std::string, at::Tensor> state() const;

  /// Copies a state() back in. Throws c10::Error naming the first missing or unexpected entry or the first
  /// with another shape or dtype; then nothing has changed.
  void load_state(const std::map<std::string, at::Tensor>& state);

  /// The groups, in the order of published_parameter_groups().
  const std::vector<ParameterGroup>& groups() const { return groups_; }
  /// As given.
  const TrainingSchedule& schedule() const { return schedule_; }

 private:
  const ParameterGroup& group_of(ParameterRole role) const;
  double muon_weight_decay(int64_t it) const;

  std::vector<ParameterGroup> groups_;
  TrainingSchedule schedule_;
  AdamW adamw_;
  Muon muon_;
  std::map<std::string, at::Tensor> state_tensors_;      ///< live, by entry name
  std::map<std::string, AdamWParamState*> step_counts_;  ///< owned by adamw_, by entry name
};

}  // namespace bov
