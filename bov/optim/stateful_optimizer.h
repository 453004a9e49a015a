#pragma once

#include <ATen/core/grad_mode.h>
#include <torch/optim/optimizer.h>
#include <torch/optim/serialize.h>

#include <memory>
#include <utility>

#include "bov/export.h"

namespace bov {

/// What the optimizers share beyond torch::optim::Optimizer: the closure, and a state for each parameter that is made at
/// its first use and saved with the options.
template <typename ParamState, typename Options>
class BOV_API StatefulOptimizer : public torch::optim::Optimizer {
 public:
  using Optimizer::Optimizer;

  /// One update. A closure is run first, with gradients enabled; its loss, a scalar, is returned. Throws c10::Error for a
  /// gradient or options that the optimizer cannot use, and what the closure throws.
  torch::Tensor step(LossClosure closure = nullptr) override {
    const at::NoGradGuard no_grad;
    torch::Tensor loss;
    if (closure) {
      const at::AutoGradMode with_grad(true);
      loss = closure();
    }
    for (auto& group : param_groups_) update(group);
    return loss;
  }

  /// The live state of a parameter of this optimizer, made of zeros if the parameter has not been stepped yet. Whether
  /// it is one of its parameters is not checked. Never throws.
  ParamState& state_of(const torch::Tensor& parameter) {
    auto& slot = state_[parameter.unsafeGetTensorImpl()];
    if (!slot) slot = std::make_unique<ParamState>(initial_state(parameter));
    return static_cast<ParamState&>(*slot);
  }

  /// Writes options and state.
  void save(torch::serialize::OutputArchive& archive) const override {
    torch::optim::serialize<ParamState, Options>(archive, *this);
  }
  /// Reads what save() wrote; throws c10::Error if the number of groups or parameters differs.
  void load(torch::serialize::InputArchive& archive) override {
    torch::optim::serialize<ParamState, Options>(archive, *this);
  }

 protected:
  /// Updates the parameters of a group that have a gradient; gradients are off.
  virtual void update(torch::optim::OptimizerParamGroup& group) = 0;
  /// The state of a parameter that was never stepped: zeros.
  virtual ParamState initial_state(const torch::Tensor& parameter) const = 0;
};

}  // namespace bov
