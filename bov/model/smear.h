#pragma once

#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include "bov/export.h"

namespace bov {

/// Mixes the previous token's embedding into each token's: x_t = n_t + λ·sigmoid(w·n_t[:24])·n_{t-1}, x_0 = n_0. Part of
/// the published code, not of the paper. λ and w start at 0: the published code leaves them uninitialised.
class BOV_API SmearImpl : public torch::nn::Cloneable<SmearImpl> {
 public:
  SmearImpl(int64_t n_embd, torch::Dtype dtype);
  void reset() override;
  void reset_parameters();
  /// [B, T, C] -> [B, T, C]
  torch::Tensor forward(const torch::Tensor& x);

  torch::Tensor gate;    ///< w [1, min(24, C)]
  torch::Tensor lambda;  ///< λ [1]

 private:
  int64_t n_embd_;
  torch::Dtype dtype_;
};
TORCH_MODULE(Smear);

}  // namespace bov
