#include "bov/model/gpt.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cmath>

#include "bov/model/rms_norm.h"
#include "bov/model/softcap_cross_entropy.h"
#include "bov/model/token_ids.h"

namespace bov {
namespace {

constexpr double kEmbeddingDeviation = 0.8;
constexpr double kHeadDeviation = 0.001;

void check_targets(const torch::Tensor& token_ids, const torch::Tensor& targets) {
  TORCH_CHECK(targets.sizes() == token_ids.sizes(), "GPT: targets must have the shape of token_ids, got ",
              targets.sizes(), " and ", token_ids.sizes());
}

}  // namespace

GPTImpl::GPTImpl(GPTOptions options) : options_(std::move(options)) {
  reset();
}

void GPTImpl::reset() {
  options_.validate();
  const GPTOptions& o = options_;
  // Submodules draw when they are made, as many numbers as their variant has parameters; reset_parameters starts from
  // where the generator stood before, so that one seed gives all variants the same shared parameters.
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const torch::Tensor generator_state = generator.get_state();
  target_layers_ = bov::target_layers(o.value, o.n_layer);
  const ValueSourceInfo& source = value_source_info(o.value.source);
  embedding = register_parameter("embedding", torch::empty({o.vocab_size, o.n_embd}, o.table_dtype));
  head = register_parameter("head", torch::empty({o.vocab_size, o.n_embd}, o.parameter_dtype));
  if (o.smear) smear = register_module("smear", Smear(o.n_embd, o.parameter_dtype));
  if (source.has_table && o.value.shared) {
    shared_bank = register_module("shared_bank",
                                  BankOfValues(BankOfValuesOptions(o.vocab_size, o.n_kv_head, o.head_dim())
                                                   .dtype(o.table_dtype)
                                                   .device(o.bank_device)));
  }
  blocks = register_module("blocks", torch::nn::ModuleList());
  const std::vector<int64_t> window_left = o.window_left();
  for (int64_t layer = 0; layer < o.n_layer; ++layer) {
    const bool target = std::binary_search(target_layers_.begin(), target_layers_.end(), layer);
    blocks->push_back(Block(CausalSelfAttentionOptions(o.n_embd, o.n_head)
                                .n_kv_head(o.n_kv_head)
                                .window_left(window_left[layer])
                                .qk_scale(o.qk_scale)
                                .rotary_base(o.rotary_base)
                                .value(target ? o.value : ValueSpec())
                                .vocab_size(o.vocab_size)
                                .parameter_dtype(o.parameter_dtype)
                                .table_dtype(o.table_dtype)
                                .table_device(o.bank_device)));
  }
  generator.set_state(generator_state);
  reset_parameters();
}

void GPTImpl::reset_parameters() {
  torch::NoGradGuard no_grad;
  const GPTOptions& o = options_;
  const auto precise =
      torch::TensorOptions(o.parameter_dtype == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32)
          .device(embedding.device());
  // Tables start from the unrounded embedding, as published.
  const torch::Tensor precise_embedding =
      torch::empty(embedding.sizes(), precise).normal_(0, kEmbeddingDeviation);
  embedding.copy_(precise_embedding);
  head.normal_(0, kHeadDeviation);
  if (!smear.is_empty()) smear->reset_parameters();

  const double s = std::sqrt(3.0 / static_cast<double>(o.n_embd));
  bool shared_bank_pending = !shared_bank.is_empty();
  for (int64_t layer = 0; layer < o.n_layer; ++layer) {
    auto& block = *blocks[layer]->as<BlockImpl>();
    ValueMixerImpl& value = *block.attention->value;
    block.attention->query.uniform_(-s, s);
    block.attention->key.uniform_(-s, s);
    // Drawn even where the layer keeps none: an aligned table needs it, and later draws stay the same for all specs.
    const torch::Tensor projection =
        torch::empty({o.n_kv_head * o.head_dim(), o.n_embd}, head.options().requires_grad(false))
            .uniform_(-s, s);
    if (value.projection.defined()) value.projection.copy_(projection);
    block.attention->output.zero_();
    block.mlp->reset_parameters();
    if (value.gamma.defined()) value.gamma.fill_(1);
    if (value.alpha.defined()) value.alpha.fill_(1);
    if (value.beta.defined()) value.beta.fill_(0);
    const bool target = std::binary_search(target_layers_.begin(), target_layers_.end(), layer);
    if (o.value.init != BankInit::aligned || !target) continue;
    if (BankOfValues bank = value.bank(); !bank.is_empty()) bank->align(precise_embedding, projection);
    if (shared_bank_pending) {
      shared_bank->align(precise_embedding, projection);
      shared_bank_pending = false;
    }
  }
  // Drawn last, so that they do not shift the draws of the parameters that all variants share.
  for (int64_t layer : target_layers_) {
    ValueMixerImpl& value = *blocks[layer]->as<BlockImpl>()->attention->value;
    if (BankOfValues bank = value.bank(); !bank.is_empty() && o.value.init == BankInit::uniform)
      bank->reset_parameters();
    if (value.gate.defined()) value.gate.uniform_(0, 0.02);
  }
  if (!shared_bank.is_empty() && o.value.init == BankInit::uniform) shared_bank->reset_parameters();
}

torch::Tensor GPTImpl::embed(const torch::Tensor& token_ids) {
  check_token_ids("GPT", token_ids, options_.vocab_size);
  return rms_norm(torch::embedding(embedding, token_ids).to(options_.compute_dtype));
}

torch::Tensor GPTImpl::run_blocks(torch::Tensor x, ValueInputs inputs, const LayerAttention& attend) {
  inputs.x0 = rms_norm(x);
  for (int64_t layer = 0; layer < options_.n_layer; ++layer) {
    auto& block = *blocks[layer]->as<BlockImpl>();
    // Layer 0 sees x0 itself, so its norm is at hand.
    inputs.hidden = layer == 0 ? inputs.x0 : rms_norm(x);
    x = x + attend(layer, *block.attention, inputs);
    x = x + block.mlp->forward(rms_norm(x));
  }
  return rms_norm(x);
}

torch::Tensor GPTImpl::hidden_states(const torch::Tensor& token_ids) {
  const GPTOptions& o = options_;
  torch::Tensor x = embed(token_ids);
  if (!smear.is_empty()) x = smear->forward(x);
  const torch::Tensor positions =
      torch::arange(token_ids.size(1), torch::TensorOptions(torch::kInt64).device(token_ids.device()));
  const RotaryTables rotary = rotary_tables(positions, o.head_dim(), o.rotary_base, o.compute_dtype);
  ValueInputs inputs;
  inputs.token_ids = token_ids;
  const bool has_banks = value_source_info(o.value.source).has_table && !target_layers_.empty();
  if (has_banks && torch::GradMode::is_enabled()) {
    inputs.token_index = ops::token_index(token_ids, o.vocab_size);
  }
  if (!shared_bank.is_empty()) {
    inputs.shared_values = shared_bank->forward(token_ids, o.compute_dtype, /*scale=*/{}, inputs.token_index);
  }
  return run_blocks(x, inputs, [&](int64_t layer, CausalSelfAttentionImpl& attention, ValueInputs& inputs) {
    const torch::Tensor values = attention.values(inputs);
    if (layer == 0) inputs.first_layer_values = values;
    return attention.attend(inputs.hidden, values, rotary);
  });
}

torch::Tensor GPTImpl::logits(const torch::Tensor& hidden) {
  return softcap(torch::linear(hidden, head.to(hidden.scalar_type())), options_.logit_softcap);
}

torch::Tensor GPTImpl::forward(const torch::Tensor& token_ids) {
  return logits(hidden_states(token_ids));
}

torch::Tensor GPTImpl::token_losses(const torch::Tensor& token_ids, const torch::Tensor& targets) {
  check_targets(token_ids, targets);
  torch::NoGradGuard no_grad;
  return softcap_cross_entropy(hidden_states(token_ids).flatten(0, 1), head, targets.flatten(),
                               options_.logit_softcap)
      .view(targets.sizes());
}

torch::Tensor GPTImpl::loss(const torch::Tensor& token_ids, const torch::Tensor& targets) {
  check_targets(token_ids, targets);
  return mean_softcap_cross_entropy(hidden_states(token_ids).flatten(0, 1), head, targets.flatten(),
                                    options_.logit_softcap);
}

}  // namespace bov
