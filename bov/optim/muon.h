#pragma once

#include <torch/optim/optimizer.h>
#include <torch/types.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "bov/export.h"
#include "bov/optim/stateful_optimizer.h"

namespace bov {

/// Options of one Muon parameter group.
struct BOV_API MuonOptions : public torch::optim::OptimizerCloneableOptions<MuonOptions> {
  /// Learning rate alone; the rest by setters.
  MuonOptions(double lr = 0.02) : lr_(lr) {}  // NOLINT(google-explicit-constructor): as torch::optim's

  TORCH_ARG(double, lr);                  ///< learning rate, 0 or more
  TORCH_ARG(double, momentum) = 0.95;     ///< Nesterov's, in [0, 1)
  TORCH_ARG(double, beta2) = 0.9;         ///< decay of the variance estimate (NorMuon)
  TORCH_ARG(double, weight_decay) = 0.0;  ///< cautious: only where update and parameter have one sign
  /// Dtype of the Polar Express matmuls; unset: bfloat16 on CUDA, the parameter's dtype elsewhere.
  TORCH_ARG(std::optional<torch::Dtype>, polar_dtype);

 public:
  double get_lr() const override { return lr(); }                           ///< for torch::optim's schedulers
  void set_lr(double lr) override { lr_ = lr; }                             ///< for torch::optim's schedulers
  void serialize(torch::serialize::InputArchive& archive) override;         ///< reads
  void serialize(torch::serialize::OutputArchive& archive) const override;  ///< writes
};

/// State of one matrix [rows, columns], in its dtype.
struct BOV_API MuonParamState : public torch::optim::OptimizerCloneableParamState<MuonParamState> {
  TORCH_ARG(torch::Tensor, momentum_buffer);  ///< [rows, columns] moving average of the gradient
  /// Moving average of the mean square of the orthogonal update: [rows, 1] if rows >= columns, else [1,
  /// columns].
  TORCH_ARG(torch::Tensor, second_moment);

 public:
  void serialize(torch::serialize::InputArchive& archive) override;         ///< reads
  void serialize(torch::serialize::OutputArchive& archive) const override;  ///< writes
};

/// Muon for weight matrices [out, in] as in the published recipe (arXiv 2606.02780): Nesterov momentum,
/// orthogonalisation by five Polar Express steps, NorMuon variance reduction that keeps the Frobenius norm,
/// cautious weight decay. The step is lr·sqrt(max(1, out/in)). Matrices of one shape are stacked, so a step
/// costs a few batched matmuls a shape.
///
///     bov::Muon optimizer(hidden_matrices, bov::MuonOptions(0.02).momentum(0.95).weight_decay(0.1));
///
/// Parameters without a gradient are skipped. Throws c10::Error for options out of range and for parameters
/// that are not float32 or float64 matrices: give embeddings, heads, vectors and half-precision tables to
/// AdamW.
class BOV_API Muon : public StatefulOptimizer<MuonParamState, MuonOptions> {
 public:
  /// Groups with options of their own, `defaults` for the rest. Throws c10::Error as said above.
  explicit Muon(const std::vector<torch::optim::OptimizerParamGroup>& groups, MuonOptions defaults = {});
  /// One group. Throws the same.
  explicit Muon(std::vector<torch::Tensor> matrices, MuonOptions defaults = {})
      : Muon({torch::optim::OptimizerParamGroup(std::move(matrices))}, std::move(defaults)) {}

 private:
  void update(torch::optim::OptimizerParamGroup& group) override;
  MuonParamState initial_state(const torch::Tensor& parameter) const override;
};

/// Nearly orthogonal factor of each matrix: [K, rows, columns] of any floating dtype -> the same shape and
/// dtype, with singular values near 1 (Polar Express, arXiv 2505.16932, five steps). Runs in the dtype of its
/// input. Throws c10::Error for another rank or dtype.
BOV_API torch::Tensor polar_express(const torch::Tensor& matrices);

}  // namespace bov
