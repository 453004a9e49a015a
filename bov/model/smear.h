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
  /// C, and the dtype of both parameters. Throws c10::Error for a C below 1.
  SmearImpl(int64_t n_embd, torch::Dtype dtype);
  /// Makes the parameters.
  void reset() override;
  /// Both zero: smear then changes nothing.
  void reset_parameters();
  /// x [B, T, C] -> [B, T, C]. `previous` [B, 1, C] is n of the token before x's first, where x goes on from earlier
  /// tokens; zeros for a sequence that starts with x. Undefined: all do. Both of one floating dtype, which the result has.
  /// Throws c10::Error for other shapes.
  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& previous = {});

  torch::Tensor gate;    ///< w [1, min(24, C)]
  torch::Tensor lambda;  ///< λ [1]

 private:
  int64_t n_embd_;
  torch::Dtype dtype_;
};
TORCH_MODULE(Smear);

}  // namespace bov
