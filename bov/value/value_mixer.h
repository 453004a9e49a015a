#pragma once

#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>

#include <memory>
#include <optional>

#include "bov/value/bank_of_values.h"
#include "bov/value/value_sources.h"
#include "bov/value/value_spec.h"

namespace bov {

/// One layer's point on the four axes and its sizes.
struct BOV_API ValueMixerOptions {
  /// Sizes, each at least 1; the rest by setters.
  ValueMixerOptions(int64_t n_embd, int64_t n_kv_head, int64_t head_dim)
      : n_embd_(n_embd), n_kv_head_(n_kv_head), head_dim_(head_dim) {}
  TORCH_ARG(int64_t, n_embd);          ///< C
  TORCH_ARG(int64_t, n_kv_head);       ///< Hkv
  TORCH_ARG(int64_t, head_dim);        ///< D
  TORCH_ARG(int64_t, vocab_size) = 0;  ///< rows of a bank; unused by other sources
  /// The axes of this layer; `layers` is not read here. A layer that is no target has the default (standard) spec.
  TORCH_ARG(ValueSpec, spec);
  TORCH_ARG(torch::Dtype, parameter_dtype) = torch::kFloat32;  ///< of W_V and the coefficients
  TORCH_ARG(torch::Dtype, table_dtype) = torch::kFloat32;      ///< of a bank
  TORCH_ARG(torch::Device, table_device) = torch::kCPU;        ///< of a bank when built
};

/// Mean and standard deviation of the gate over tokens and heads in the last forward pass.
struct BOV_API GateStatistics {
  double mean = 0;       ///< in [0, 3]
  double deviation = 0;  ///< of the population
};

/// The value vectors of one attention layer, whatever their source (arXiv 2606.02780, sections 3 and 5).
///
/// replace: c·Ṽ with c = `coefficient`, γ or the gate. add: a·V + b·Ṽ with a = b = `coefficient`, or α and β, or 1 and
/// the gate. Where Ṽ is itself W_V of some input and a, b are one number a layer, the sum is one matmul:
/// (a·x + b·x_0)·W_V.
class BOV_API ValueMixerImpl : public torch::nn::Cloneable<ValueMixerImpl> {
 public:
  /// Throws c10::Error for a size below 1 or an impossible spec.
  explicit ValueMixerImpl(ValueMixerOptions options);
  /// Makes the parameters and draws them.
  void reset() override;
  /// W_V ~ U(-s, s), s = sqrt(3/C); γ = α = 1, β = 0; gate ~ U(0, 0.02); a bank's rows uniform.
  void reset_parameters();

  /// Values [B, T, Hkv, D] in the dtype of inputs.hidden. Throws c10::Error where an input that they need is undefined, or
  /// for a token id out of range.
  torch::Tensor forward(const ValueInputs& inputs);

  /// What a decoder must keep for this layer. A gate or a sum with V makes the values a function of the context.
  ValueCacheNeed cache_need() const;

  /// c·x with the c that multiplies Ṽ where V is replaced; x is [.., H, D], H a multiple of Hkv. Attention is linear in
  /// its values, so a decoder that keeps Ṽ or token ids may apply c to attention's result instead. In x's dtype. Not for
  /// layers with cache_need() own_values. Throws c10::Error for an H that is no multiple of Hkv, where each head has its c.
  torch::Tensor scale(const torch::Tensor& x) const;

  /// The layer's own table; empty if it has none.
  BankOfValues bank() const;

  /// Statistics of the last forward pass; empty if the layer has no gate or recording is off (the default).
  std::optional<GateStatistics> gate_statistics() const;
  /// Turns recording on or off; on, the gate of a pass is kept until the next.
  void record_gate(bool on) { record_gate_ = on; }

  /// As given.
  const ValueMixerOptions& options() const { return options_; }

  torch::Tensor projection;  ///< W_V [Hkv·D, C]; undefined if the layer never projects
  torch::Tensor gamma;       ///< [1], or [Hkv] with learned_per_head; replace
  torch::Tensor alpha;       ///< as gamma; add: weight of V
  torch::Tensor beta;        ///< as gamma; add: weight of Ṽ
  torch::Tensor gate;        ///< [Hkv, min(12, C)]; gated

 private:
  torch::Tensor project(const torch::Tensor& input) const;
  torch::Tensor source_values(const ValueInputs& inputs) const;
  torch::Tensor gate_values(const torch::Tensor& hidden);

  ValueMixerOptions options_;
  std::shared_ptr<ValueSource> source_;
  bool record_gate_ = false;
  torch::Tensor recorded_gate_;
};
TORCH_MODULE(ValueMixer);

}  // namespace bov
