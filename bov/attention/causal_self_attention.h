#pragma once

#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>

#include "bov/attention/rotary.h"
#include "bov/value/value_mixer.h"

namespace bov {

/// Sizes and rules of one attention layer.
struct BOV_API CausalSelfAttentionOptions {
  CausalSelfAttentionOptions(int64_t n_embd, int64_t n_head)
      : n_embd_(n_embd), n_head_(n_head), n_kv_head_(n_head) {}
  TORCH_ARG(int64_t, n_embd);
  TORCH_ARG(int64_t, n_head);
  TORCH_ARG(int64_t, n_kv_head);
  TORCH_ARG(int64_t, window_left) = 2048;  ///< query i sees keys [i - window_left, i]
  TORCH_ARG(double, qk_scale) = 1.2;       ///< multiplies q and k after their norm
  TORCH_ARG(double, rotary_base) = 100000.0;
  TORCH_ARG(ValueSpec, value);         ///< this layer's values; `layers` is not read
  TORCH_ARG(int64_t, vocab_size) = 0;  ///< rows of a bank
  TORCH_ARG(torch::Dtype, parameter_dtype) = torch::kFloat32;
  TORCH_ARG(torch::Dtype, table_dtype) = torch::kFloat32;
  TORCH_ARG(torch::Device, table_device) = torch::kCPU;

 public:
  int64_t head_dim() const { return n_embd_ / n_head_; }
};

/// Attention of the published model: q and k rotated, RMS-normalised per head and scaled; v from any source.
class BOV_API CausalSelfAttentionImpl : public torch::nn::Cloneable<CausalSelfAttentionImpl> {
 public:
  explicit CausalSelfAttentionImpl(CausalSelfAttentionOptions options);
  void reset() override;
  /// q and k ~ U(-s, s), s = sqrt(3/C); output zero; values as ValueMixer.
  void reset_parameters();

  /// The whole layer: values from `inputs`, then attend. [B, T, C] -> [B, T, C].
  torch::Tensor forward(const ValueInputs& inputs);

  /// inputs -> values [B, T, Hkv, D].
  torch::Tensor values(const ValueInputs& inputs) { return value->forward(inputs); }

  /// Attention of hidden [B, T, C] over given values [B, T, Hkv, D] -> [B, T, C]; `rotary` holds positions 0 to T-1.
  torch::Tensor attend(const torch::Tensor& hidden, const torch::Tensor& values, const RotaryTables& rotary);

  /// The parts of attend(). Queries [B, T, H, D] and keys [B, T, Hkv, D] of hidden [B, T, C], rotated to the T positions
  /// of `rotary`, normalised and scaled, as a decoder may keep them; and what the layer adds to the residual stream,
  /// [B, T, C], given the heads' weighted sums of values [B, T, H, D].
  torch::Tensor queries(const torch::Tensor& hidden, const RotaryTables& rotary);
  torch::Tensor keys(const torch::Tensor& hidden, const RotaryTables& rotary);
  torch::Tensor merge(const torch::Tensor& heads);

  const CausalSelfAttentionOptions& options() const { return options_; }

  torch::Tensor query;   ///< [H·D, C]
  torch::Tensor key;     ///< [Hkv·D, C]
  torch::Tensor output;  ///< [C, H·D]
  ValueMixer value{nullptr};

 private:
  torch::Tensor project(const torch::Tensor& hidden,
                        const torch::Tensor& weight,
                        const RotaryTables& rotary) const;

  CausalSelfAttentionOptions options_;
};
TORCH_MODULE(CausalSelfAttention);

}  // namespace bov
