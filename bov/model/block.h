#pragma once

#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>

#include "bov/attention/causal_self_attention.h"
#include "bov/model/mlp.h"

namespace bov {

/// One transformer block: x += attention(RMSNorm(x)); x += mlp(RMSNorm(x)). GPT drives the two halves, since the first
/// layer's values are needed by later ones.
class BOV_API BlockImpl : public torch::nn::Cloneable<BlockImpl> {
 public:
  /// The MLP is four times as wide as the block. Throws as CausalSelfAttention.
  explicit BlockImpl(CausalSelfAttentionOptions options);
  /// Makes the two halves and draws their parameters.
  void reset() override;
  /// Draws the parameters of both halves anew.
  void reset_parameters();

  CausalSelfAttention attention{nullptr};  ///< first half, without its norm
  MLP mlp{nullptr};                        ///< second half, without its norm

 private:
  CausalSelfAttentionOptions options_;
};
TORCH_MODULE(Block);

}  // namespace bov
