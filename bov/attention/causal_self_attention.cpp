#include "bov/attention/causal_self_attention.h"

#include <cmath>

#include "bov/attention/rotary_norm.h"
#include "csrc/windowed_attention.h"

namespace bov {

CausalSelfAttentionImpl::CausalSelfAttentionImpl(CausalSelfAttentionOptions options)
    : options_(std::move(options)) {
  reset();
}

void CausalSelfAttentionImpl::reset() {
  const int64_t width = options_.n_embd(), heads = options_.n_head(), kv_heads = options_.n_kv_head();
  TORCH_CHECK(width > 0 && heads > 0 && kv_heads > 0,
              "CausalSelfAttention: n_embd, n_head and n_kv_head must be positive, got ", width, ", ", heads,
              " and ", kv_heads);
  TORCH_CHECK(width % heads == 0 && (width / heads) % 2 == 0, "CausalSelfAttention: n_embd (", width,
              ") must be n_head (", heads, ") times an even head width");
  TORCH_CHECK(heads % kv_heads == 0, "CausalSelfAttention: n_head (", heads,
              ") must be a multiple of n_kv_head (", kv_heads, ")");
  TORCH_CHECK(options_.window_left() >= 0, "CausalSelfAttention: window_left must be 0 or more, got ",
              options_.window_left());
  const auto dtype = torch::TensorOptions(options_.parameter_dtype());
  const int64_t kv_width = kv_heads * options_.head_dim();
  query = register_parameter("query", torch::empty({width, width}, dtype));
  key = register_parameter("key", torch::empty({kv_width, width}, dtype));
  output = register_parameter("output", torch::empty({width, width}, dtype));
  value = register_module("value", ValueMixer(ValueMixerOptions(width, kv_heads, options_.head_dim())
                                                  .vocab_size(options_.vocab_size())
                                                  .spec(options_.value())
                                                  .parameter_dtype(options_.parameter_dtype())
                                                  .table_dtype(options_.table_dtype())
                                                  .table_device(options_.table_device())));
  reset_parameters();
}

void CausalSelfAttentionImpl::reset_parameters() {
  torch::NoGradGuard no_grad;
  const double s = std::sqrt(3.0 / static_cast<double>(options_.n_embd()));
  query.uniform_(-s, s);
  key.uniform_(-s, s);
  output.zero_();
  value->reset_parameters();
}

torch::Tensor CausalSelfAttentionImpl::forward(const ValueInputs& inputs) {
  const torch::Tensor& hidden = inputs.hidden;
  const torch::Tensor positions =
      torch::arange(hidden.size(1), torch::TensorOptions(torch::kInt64).device(hidden.device()));
  const RotaryTables rotary =
      rotary_tables(positions, options_.head_dim(), options_.rotary_base(), hidden.scalar_type());
  return attend(hidden, values(inputs), rotary);
}

torch::Tensor CausalSelfAttentionImpl::attend(const torch::Tensor& hidden,
                                              const torch::Tensor& values,
                                              const RotaryTables& rotary) {
  return merge(
      ops::windowed_attention(queries(hidden, rotary), keys(hidden, rotary), values, options_.window_left()));
}

torch::Tensor CausalSelfAttentionImpl::project(const torch::Tensor& hidden,
                                               const torch::Tensor& weight,
                                               const RotaryTables& rotary) const {
  const torch::Tensor heads =
      torch::linear(hidden, weight.to(hidden.scalar_type())).unflatten(-1, {-1, options_.head_dim()});
  return rotary_rms_norm(heads, rotary, options_.qk_scale());
}

torch::Tensor CausalSelfAttentionImpl::queries(const torch::Tensor& hidden, const RotaryTables& rotary) {
  return project(hidden, query, rotary);
}

torch::Tensor CausalSelfAttentionImpl::keys(const torch::Tensor& hidden, const RotaryTables& rotary) {
  return project(hidden, key, rotary);
}

torch::Tensor CausalSelfAttentionImpl::merge(const torch::Tensor& heads) {
  return torch::linear(heads.flatten(-2), output.to(heads.scalar_type()));
}

}  // namespace bov
