#pragma once

#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>

#include "bov/attention/rotary.h"
#include "bov/value/value_mixer.h"

namespace bov {

/// Sizes and rules of one attention layer.
struct BOV_API CausalSelfAttentionOptions {
  /// As many kv heads as query heads.
  CausalSelfAttentionOptions(int64_t n_embd, int64_t n_head)
      : n_embd_(n_embd), n_head_(n_head), n_kv_head_(n_head) {}
  TORCH_ARG(int64_t, n_embd);                                  ///< C
  TORCH_ARG(int64_t, n_head);                                  ///< H, a divisor of C; C/H is even
  TORCH_ARG(int64_t, n_kv_head);                               ///< Hkv, a divisor of H
  TORCH_ARG(int64_t, window_left) = 2048;                      ///< query i sees keys [i - window_left, i]
  TORCH_ARG(double, qk_scale) = 1.2;                           ///< multiplies q and k after their norm
  TORCH_ARG(double, rotary_base) = 100000.0;                   ///< angles are position·base^(-2j/D)
  TORCH_ARG(ValueSpec, value);                                 ///< this layer's values; `layers` is not read
  TORCH_ARG(int64_t, vocab_size) = 0;                          ///< rows of a bank
  TORCH_ARG(torch::Dtype, parameter_dtype) = torch::kFloat32;  ///< of matrices and coefficients
  TORCH_ARG(torch::Dtype, table_dtype) = torch::kFloat32;      ///< of a bank
  TORCH_ARG(torch::Device, table_device) = torch::kCPU;        ///< of a bank when built

 public:
  /// D
  int64_t head_dim() const { return n_embd_ / n_head_; }
};

/// Attention of the published model: q and k rotated, RMS-normalised per head and scaled; v from any source.
class BOV_API CausalSelfAttentionImpl : public torch::nn::Cloneable<CausalSelfAttentionImpl> {
 public:
  /// Throws c10::Error for sizes that do not fit each other or an impossible value spec.
  explicit CausalSelfAttentionImpl(CausalSelfAttentionOptions options);
  /// Makes the parameters and draws them.
  void reset() override;
  /// q and k ~ U(-s, s), s = sqrt(3/C); output zero; values as ValueMixer.
  void reset_parameters();

  /// The whole layer: values from `inputs`, then attend. [B, T, C] -> [B, T, C] in the dtype of inputs.hidden, to which
  /// the matrices are cast. Throws c10::Error where an input that the values need is undefined or has another shape, or
  /// for a token id out of range.
  torch::Tensor forward(const ValueInputs& inputs);

  /// inputs -> values [B, T, Hkv, D] in the dtype of inputs.hidden. Throws as forward().
  torch::Tensor values(const ValueInputs& inputs) { return value->forward(inputs); }

  /// Attention of hidden [B, T, C] over given values [B, T, Hkv, D] -> [B, T, C], all of one dtype, that of `rotary`, which
  /// holds positions 0 to T-1. Throws c10::Error for other shapes and for dtypes that differ.
  torch::Tensor attend(const torch::Tensor& hidden, const torch::Tensor& values, const RotaryTables& rotary);

  /// A part of attend(): queries [B, T, H, D] of hidden [B, T, C], rotated to the T positions of `rotary`, normalised and
  /// scaled, in hidden's dtype. Throws c10::Error for other shapes.
  torch::Tensor queries(const torch::Tensor& hidden, const RotaryTables& rotary);
  /// The keys of the same hidden [B, T, C], [B, T, Hkv, D], as a decoder may keep them. Throws as queries().
  torch::Tensor keys(const torch::Tensor& hidden, const RotaryTables& rotary);
  /// The last part: the heads' weighted sums of values [B, T, H, D] -> what the layer adds to the residual stream,
  /// [B, T, C] in the same dtype. Throws c10::Error unless H·D is C.
  torch::Tensor merge(const torch::Tensor& heads);

  /// As given.
  const CausalSelfAttentionOptions& options() const { return options_; }

  torch::Tensor query;        ///< [H·D, C]
  torch::Tensor key;          ///< [Hkv·D, C]
  torch::Tensor output;       ///< [C, H·D]
  ValueMixer value{nullptr};  ///< where the values come from

 private:
  torch::Tensor project(const torch::Tensor& hidden,
                        const torch::Tensor& weight,
                        const RotaryTables& rotary) const;

  CausalSelfAttentionOptions options_;
};
TORCH_MODULE(CausalSelfAttention);

}  // namespace bov
