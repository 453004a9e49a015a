#include "bov/decode/decoder.h"

#include <algorithm>
#include <map>

#include "bov/decode/cached_attention.h"
#include "bov/model/token_ids.h"

namespace bov {

/// One forward pass: where each cache takes the new tokens, and what each layer sees of it.
class Decoder::Pass {
 public:
  Pass(Decoder& decoder, const torch::Tensor& token_ids, DecodeState& state);

  torch::Tensor run();

 private:
  void append(const CacheKey& key, const torch::Tensor& rows);
  torch::Tensor positions() const;
  torch::Tensor attend(int64_t layer, CausalSelfAttentionImpl& attention, ValueInputs& inputs);
  torch::Tensor attend_to_bank(const torch::Tensor& q,
                               int64_t layer,
                               const CacheKey& key,
                               const CacheKey& row_numbers);

  GPTImpl& model_;
  Decoder& decoder_;
  const torch::Tensor& token_ids_;
  DecodeState& state_;
  std::map<int64_t, SlotPlan> plans_;  // by a window's limit
  std::map<CacheKey, torch::Tensor> views_;
  RotaryTables rotary_;
};

Decoder::Pass::Pass(Decoder& decoder, const torch::Tensor& token_ids, DecodeState& state)
    : model_(*decoder.model_), decoder_(decoder), token_ids_(token_ids), state_(state) {
  for (const auto& [key, cache] : state.caches_) {
    plans_.try_emplace(key.limit, state.lengths_, token_ids.size(1), key.limit, cache.capacity(),
                       state.device_);
  }
}

void Decoder::Pass::append(const CacheKey& key, const torch::Tensor& rows) {
  views_[key] = state_.caches_.at(key).append(rows, plans_.at(key.limit));
}

/// [B·T], one sequence after the other.
torch::Tensor Decoder::Pass::positions() const {
  const torch::Tensor first = torch::tensor(state_.lengths_, torch::kInt64).unsqueeze(1);
  return (first + torch::arange(token_ids_.size(1), torch::kInt64)).flatten().to(state_.device_);
}

torch::Tensor Decoder::Pass::run() {
  const GPTOptions& o = model_.options();
  torch::Tensor x = model_.embed(token_ids_);
  if (!model_.smear.is_empty()) {
    std::vector<double> goes_on;
    for (const int64_t length : state_.lengths_) goes_on.push_back(length > 0 ? 1 : 0);
    const torch::Tensor mask = torch::tensor(goes_on, x.options()).view({-1, 1, 1});
    x = model_.smear->forward(x, model_.embed(state_.last_token_ids()) * mask);
  }
  rotary_ = rotary_tables(positions(), o.head_dim(), o.rotary_base, o.compute_dtype);
  ValueInputs inputs;
  inputs.token_ids = token_ids_;
  if (decoder_.reads_shared_values_) {
    inputs.shared_values = model_.shared_bank->forward(token_ids_, o.compute_dtype);
  }
  const torch::Tensor row_numbers = decoder_.banks_->row_numbers(token_ids_);
  for (const auto& [key, cache] : state_.caches_) {
    if (key.kind == CacheKey::Kind::history) append(key, token_ids_);
    if (key.kind == CacheKey::Kind::row_numbers) append(key, row_numbers);
  }
  return model_.run_blocks(x, inputs,
                           [this](int64_t layer, CausalSelfAttentionImpl& attention, ValueInputs& inputs) {
                             return attend(layer, attention, inputs);
                           });
}

torch::Tensor Decoder::Pass::attend(int64_t layer, CausalSelfAttentionImpl& attention, ValueInputs& inputs) {
  const int64_t batch = token_ids_.size(0), tokens = token_ids_.size(1);
  // Each sequence has positions of its own, and the rotation takes one row of positions: the batch becomes one row.
  const torch::Tensor row = inputs.hidden.reshape({1, batch * tokens, -1});
  const auto by_sequence = [&](const torch::Tensor& heads) {
    return heads.squeeze(0).unflatten(0, {batch, tokens});
  };
  const torch::Tensor q = by_sequence(attention.queries(row, rotary_));
  const CacheKey key = key_cache(state_.layout_, layer), value = value_cache(state_.layout_, layer);
  append(key, by_sequence(attention.keys(row, rotary_)));
  const LayerCache& cache = state_.layout_.layers[layer];
  if (cache.need == ValueCacheNeed::own_values) {
    const torch::Tensor values = attention.values(inputs);
    if (layer == 0) inputs.first_layer_values = values;
    // Layer 0's values may be kept for several windows.
    for (const auto& [other, unused] : state_.caches_) {
      if (other.kind == CacheKey::Kind::values && other.layer == layer) append(other, values);
    }
  }
  const torch::Tensor heads = cache.need == ValueCacheNeed::token_ids
                                  ? attend_to_bank(q, layer, key, value)
                                  : cached_attention(q, views_.at(key), views_.at(value),
                                                     plans_.at(key.limit).host_view_lengths(), cache.left);
  return attention.merge(cache.need == ValueCacheNeed::own_values ? heads : attention.value->scale(heads));
}

torch::Tensor Decoder::Pass::attend_to_bank(const torch::Tensor& q,
                                            int64_t layer,
                                            const CacheKey& key,
                                            const CacheKey& row_numbers) {
  const SlotPlan& plan = plans_.at(key.limit);
  const int64_t left = state_.layout_.layers[layer].left;
  const torch::Tensor &keys = views_.at(key), &numbers = views_.at(row_numbers);
  const BankTable table = decoder_.banks_->table(layer);
  // For many queries, gathering the rows in view once costs less than reading them for each.
  if (q.size(1) >= kFewQueries) {
    const torch::Tensor values = gather_rows(table, numbers, q.scalar_type()).view(keys.sizes());
    return cached_attention(q, keys, values, plan.host_view_lengths(), left);
  }
  return ops::bank_attention(q, keys, table.rows, numbers, plan.view_lengths(), left, std::nullopt,
                             table.row_scale, decoder_.options_.algorithm);
}

Decoder::Decoder(GPT model, DecoderOptions options, std::shared_ptr<BankStore> banks)
    : model_(std::move(model)),
      options_(options),
      banks_(banks ? std::move(banks) : make_device_bank_store(bank_tables(model_))),
      layout_(cache_layout(model_->options(), options.long_window)) {
  for (int64_t layer = 0; layer < model_->options().n_layer; ++layer) {
    const auto& block = *model_->blocks[layer]->as<BlockImpl>();
    layout_.layers[layer].need = block.attention->value->cache_need();
    const bool own = layout_.layers[layer].need == ValueCacheNeed::own_values;
    const auto& targets = model_->target_layers();
    reads_shared_values_ |=
        own && !model_->shared_bank.is_empty() && std::binary_search(targets.begin(), targets.end(), layer);
  }
}

DecodeState Decoder::start(int64_t batch) const {
  return {layout_, batch, model_->embedding.device()};
}

void Decoder::check(const torch::Tensor& token_ids, const DecodeState& state) const {
  TORCH_CHECK(token_ids.dim() == 2 && token_ids.size(0) == state.batch() && token_ids.size(1) >= 1 &&
                  token_ids.scalar_type() == torch::kInt64,
              "Decoder: token_ids must be int64 [", state.batch(), ", 1 or more], got ",
              token_ids.scalar_type(), " ", token_ids.sizes());
  TORCH_CHECK(state.layout() == layout_, "Decoder: the state is of another model or long_window");
  check_token_ids("Decoder", token_ids, layout_.vocab_size);
}

torch::Tensor Decoder::hidden_states(const torch::Tensor& token_ids, DecodeState& state) {
  check(token_ids, state);
  const torch::Tensor hidden = Pass(*this, token_ids, state).run();
  state.lengthen(token_ids.size(1));
  return hidden;
}

torch::Tensor Decoder::forward(const torch::Tensor& token_ids, DecodeState& state) {
  const torch::NoGradGuard no_grad;
  return model_->logits(hidden_states(token_ids, state));
}

torch::Tensor Decoder::next_logits(const torch::Tensor& token_ids, DecodeState& state) {
  const torch::NoGradGuard no_grad;
  return model_->logits(hidden_states(token_ids, state).select(1, -1));
}

}  // namespace bov
