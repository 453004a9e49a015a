#pragma once

#include <torch/optim/optimizer.h>

#include <cstdint>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "bov/export.h"
#include "bov/optim/stateful_optimizer.h"

namespace bov {

/// Options of one AdamW parameter group.
struct BOV_API AdamWOptions : public torch::optim::OptimizerCloneableOptions<AdamWOptions> {
  /// Learning rate alone; the rest by setters.
  AdamWOptions(double lr = 1e-3) : lr_(lr) {}  // NOLINT(google-explicit-constructor): as torch::optim's

  using betas_t = std::tuple<double, double>;               ///< β1, β2
  TORCH_ARG(double, lr);                                    ///< learning rate, 0 or more
  TORCH_ARG(betas_t, betas) = std::make_tuple(0.9, 0.999);  ///< decay of the moments, each in [0, 1)
  TORCH_ARG(double, eps) = 1e-8;                            ///< added to the root of the second moment
  TORCH_ARG(double, weight_decay) = 1e-2;  ///< decoupled: multiplies the parameter by 1 - lr·weight_decay

 public:
  double get_lr() const override { return lr(); }                           ///< for torch::optim's schedulers
  void set_lr(double lr) override { lr_ = lr; }                             ///< for torch::optim's schedulers
  void serialize(torch::serialize::InputArchive& archive) override;         ///< reads
  void serialize(torch::serialize::OutputArchive& archive) const override;  ///< writes
};

/// State of one parameter.
struct BOV_API AdamWParamState : public torch::optim::OptimizerCloneableParamState<AdamWParamState> {
  TORCH_ARG(int64_t, step) = 0;          ///< updates done
  TORCH_ARG(torch::Tensor, exp_avg);     ///< m: shape and dtype of the parameter
  TORCH_ARG(torch::Tensor, exp_avg_sq);  ///< s: shape and dtype of the parameter

 public:
  void serialize(torch::serialize::InputArchive& archive) override;         ///< reads
  void serialize(torch::serialize::OutputArchive& archive) const override;  ///< writes
};

/// AdamW with decoupled weight decay for parameters of any floating dtype and shape. In this order:
///
///     p <- p·(1 - lr·wd)     m <- m + (1-β1)(g - m)     s <- s + (1-β2)(g² - s)
///     p <- p - lr/(1-β1^t) · m / (sqrt(s/(1-β2^t)) + eps)
///
/// Half-precision parameters keep their moments in their own dtype; all arithmetic is float32 (float64 for
/// float64) and each of p, m, s is rounded once, at its store. torch::optim::AdamW rounds after every
/// operation, which loses a bfloat16 table's decay (lr·wd = 3e-4) and second moment (1-β2 = 0.005).
///
///     bov::AdamW optimizer(model->parameters(), bov::AdamWOptions(3e-3).betas({0.8,
///     0.96}).weight_decay(0.01));
///
/// Parameters without a gradient are skipped. Throws c10::Error for options out of range and for sparse
/// gradients.
class BOV_API AdamW : public StatefulOptimizer<AdamWParamState, AdamWOptions> {
 public:
  /// Groups with options of their own, `defaults` for the rest. Throws c10::Error for options out of range.
  explicit AdamW(const std::vector<torch::optim::OptimizerParamGroup>& groups, AdamWOptions defaults = {});
  /// One group. Throws the same.
  explicit AdamW(std::vector<torch::Tensor> parameters, AdamWOptions defaults = {})
      : AdamW({torch::optim::OptimizerParamGroup(std::move(parameters))}, std::move(defaults)) {}

 private:
  void update(torch::optim::OptimizerParamGroup& group) override;
  AdamWParamState initial_state(const torch::Tensor& parameter) const override;
};

}  // namespace bov
