#pragma once

#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include "bov/export.h"

namespace bov {

/// x -> down(relu(up(x))²), C -> 4C -> C, without biases.
class BOV_API MLPImpl : public torch::nn::Cloneable<MLPImpl> {
 public:
  /// C, and the dtype of both matrices. Throws c10::Error for a C below 1.
  MLPImpl(int64_t n_embd, torch::Dtype dtype);
  /// Makes the parameters and draws them.
  void reset() override;
  /// up ~ U(-0.4·s, 0.4·s), s = sqrt(3/C); down zero.
  void reset_parameters();
  /// x [.., C] of any floating dtype -> [.., C] in x's dtype, to which the matrices are cast. Throws c10::Error for another
  /// width.
  torch::Tensor forward(const torch::Tensor& x);

  torch::Tensor up;    ///< [4C, C]
  torch::Tensor down;  ///< [C, 4C]

 private:
  int64_t n_embd_;
  torch::Dtype dtype_;
};
TORCH_MODULE(MLP);

}  // namespace bov
