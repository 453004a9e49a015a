#include "bov/value/value_mixer.h"

#include <cmath>

namespace bov {
namespace {

constexpr int64_t kGateChannels = 12;
constexpr double kGateScale = 3.0;

using Kind = ValueCoefficient::Kind;

/// A learned coefficient as a factor of x [.., H, D] or, if it is one number, of any x: [1, 1], or [H, 1] with each kv
/// head's number repeated for the H / Hkv heads that share it.
torch::Tensor per_head(const torch::Tensor& coefficient, const torch::Tensor& x) {
  const int64_t n = coefficient.numel();
  const torch::Tensor factor = n == 1 ? coefficient : coefficient.repeat_interleave(x.size(-2) / n);
  return factor.to(x.scalar_type()).unsqueeze(-1);
}

}  // namespace

ValueMixerImpl::ValueMixerImpl(ValueMixerOptions options) : options_(std::move(options)) {
  reset();
}

void ValueMixerImpl::reset() {
  const ValueSpec& spec = options_.spec();
  spec.validate();
  const ValueSourceInfo& info = value_source_info(spec.source);
  TORCH_CHECK(options_.n_embd() > 0 && options_.n_kv_head() > 0 && options_.head_dim() > 0,
              "ValueMixer: n_embd, n_kv_head and head_dim must be positive, got ", options_.n_embd(), ", ",
              options_.n_kv_head(), " and ", options_.head_dim());
  TORCH_CHECK(!info.has_table || options_.vocab_size() > 0, "ValueMixer: source '", spec.source,
              "' has a table, so vocab_size must be positive, got ", options_.vocab_size());
  const auto dtype = torch::TensorOptions(options_.parameter_dtype());
  const bool add = spec.combine == ValueCombine::add;
  if (add || info.projects) {
    projection = register_parameter(
        "projection", torch::empty({options_.n_kv_head() * options_.head_dim(), options_.n_embd()}, dtype));
  }
  if (spec.coefficient.is_learned()) {
    const int64_t size = spec.coefficient.kind == Kind::learned_per_head ? options_.n_kv_head() : 1;
    if (add) {
      alpha = register_parameter("alpha", torch::empty({size}, dtype));
      beta = register_parameter("beta", torch::empty({size}, dtype));
    } else {
      gamma = register_parameter("gamma", torch::empty({size}, dtype));
    }
  } else if (spec.coefficient.kind == Kind::gated) {
    const int64_t channels = std::min(kGateChannels, options_.n_embd());
    gate = register_parameter("gate", torch::empty({options_.n_kv_head(), channels}, dtype));
  }
  source_ = info.make(spec, {.n_embd = options_.n_embd(),
                             .n_kv_head = options_.n_kv_head(),
                             .head_dim = options_.head_dim(),
                             .vocab_size = options_.vocab_size(),
                             .table_dtype = options_.table_dtype(),
                             .table_device = options_.table_device()});
  if (const auto module = source_->module()) register_module(source_->module_name(), module);
  reset_parameters();
}

void ValueMixerImpl::reset_parameters() {
  torch::NoGradGuard no_grad;
  if (projection.defined()) {
    const double s = std::sqrt(3.0 / static_cast<double>(options_.n_embd()));
    projection.uniform_(-s, s);
  }
  if (gamma.defined()) gamma.fill_(1);
  if (alpha.defined()) alpha.fill_(1);
  if (beta.defined()) beta.fill_(0);
  if (gate.defined()) gate.uniform_(0, 0.02);
  if (const BankOfValues table = bank(); !table.is_empty()) table.ptr()->reset_parameters();
}

torch::Tensor ValueMixerImpl::project(const torch::Tensor& input) const {
  return torch::linear(input, projection.to(input.scalar_type()))
      .unflatten(-1, {options_.n_kv_head(), options_.head_dim()});
}

torch::Tensor ValueMixerImpl::source_values(const ValueInputs& inputs) const {
  const torch::Tensor input = source_->projection_input(inputs);
  return input.defined() ? project(input) : source_->values(inputs);
}

torch::Tensor ValueMixerImpl::gate_values(const torch::Tensor& hidden) {
  const torch::Tensor scores =
      torch::linear(hidden.slice(-1, 0, gate.size(1)), gate.to(hidden.scalar_type()));
  const torch::Tensor values = kGateScale * torch::sigmoid(scores);
  if (record_gate_) recorded_gate_ = values.detach();
  return values.unsqueeze(-1);
}

torch::Tensor ValueMixerImpl::scale(const torch::Tensor& x) const {
  if (gamma.defined()) return per_head(gamma, x) * x;
  const double fixed = options_.spec().coefficient.value;
  return fixed == 1.0 ? x : fixed * x;
}

torch::Tensor ValueMixerImpl::forward(const ValueInputs& inputs) {
  const ValueSpec& spec = options_.spec();
  const double fixed = spec.coefficient.value;
  const bool gated = spec.coefficient.kind == Kind::gated;
  if (spec.combine == ValueCombine::replace) {
    const torch::Tensor source = source_values(inputs);
    return gated ? gate_values(inputs.hidden) * source : scale(source);
  }
  if (gated) return project(inputs.hidden) + gate_values(inputs.hidden) * source_values(inputs);
  const auto mix = [&](const torch::Tensor& v, const torch::Tensor& source) {
    return alpha.defined() ? per_head(alpha, v) * v + per_head(beta, source) * source : fixed * (v + source);
  };
  const torch::Tensor input = source_->projection_input(inputs);
  if (input.defined() && spec.coefficient.kind != Kind::learned_per_head)
    return project(mix(inputs.hidden, input));
  return mix(project(inputs.hidden), source_values(inputs));
}

ValueCacheNeed ValueMixerImpl::cache_need() const {
  return value_cache_need(options_.spec());
}

BankOfValues ValueMixerImpl::bank() const {
  return BankOfValues(std::dynamic_pointer_cast<BankOfValuesImpl>(source_->module()));
}

std::optional<GateStatistics> ValueMixerImpl::gate_statistics() const {
  if (!recorded_gate_.defined()) return std::nullopt;
  const torch::Tensor values = recorded_gate_.to(torch::kFloat64);
  return GateStatistics{values.mean().item<double>(), values.std(/*unbiased=*/false).item<double>()};
}

}  // namespace bov
