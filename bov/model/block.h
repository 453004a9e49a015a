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
  explicit BlockImpl(CausalSelfAttentionOptions options);
  void reset() override;
  void reset_parameters();

  CausalSelfAttention attention{nullptr};
  MLP mlp{nullptr};

 private:
  CausalSelfAttentionOptions options_;
};
TORCH_MODULE(Block);

}  // namespace bov
