#include "bov/model/bank_conversion.h"

#include <utility>

#include "bov/attention/rotary.h"
#include "bov/io/module_state.h"
#include "bov/model/rms_norm.h"
#include "bov/value/presets.h"

namespace bov {
namespace {

std::string value_name(int64_t layer, const char* parameter) {
  return "blocks." + std::to_string(layer) + ".attention.value." + parameter;
}

ValueMixerImpl& value_of(GPT& model, int64_t layer) {
  return *model->blocks[layer]->as<BlockImpl>()->attention->value;
}

void check_foldable(const GPTOptions& options) {
  const std::string& source = options.value.source;
  TORCH_CHECK(
      source == "embedding" || source == "first_layer", "fold: the value source is '", source,
      "'; expected 'embedding' or 'first_layer', whose values x_0·W_V are a function of the token id");
  TORCH_CHECK(
      !options.smear,
      "fold: smear is on, so x_0 holds the previous token too and x_0·W_V is no function of one token "
      "id; expected a model with smear: false");
  TORCH_CHECK(c10::elementSize(options.table_dtype) >= c10::elementSize(options.compute_dtype),
              "fold: table_dtype ", options.table_dtype, " is narrower than compute_dtype ",
              options.compute_dtype, ", so the tables would be rounded; expected one at least as wide");
}

/// `model` without the matrices W_V of the layers, which the tables replace.
TensorMap without_projections(const GPT& model, const std::vector<int64_t>& layers) {
  TensorMap parameters = module_state(*model);
  for (const int64_t layer : layers) parameters.erase(value_name(layer, "projection"));
  return parameters;
}

TensorRows table_rows(const GPTOptions& options, std::function<at::Tensor(int64_t, int64_t)> rows) {
  return {.dtype = options.table_dtype,
          .shape = {options.vocab_size, options.n_kv_head * options.head_dim()},
          .rows = [rows = std::move(rows), dtype = options.table_dtype](int64_t begin, int64_t end) {
            return rows(begin, end).to(dtype);
          }};
}

}  // namespace

BankModel fold_into_banks(GPT model) {
  check_foldable(model->options());
  BankModel result{.options = model->options()};
  ValueSpec& value = result.options.value;
  const std::vector<int64_t>& targets = model->target_layers();
  // x_0·W_V of every token, with the W_V of `layer`.
  const auto table_of = [&](int64_t layer) {
    return table_rows(result.options, [model, layer](int64_t begin, int64_t end) mutable {
      const c10::NoGradGuard no_grad;
      const auto ids =
          torch::arange(begin, end, model->embedding.options().dtype(torch::kInt64).requires_grad(false));
      // The second norm is the one at the start of GPT::run_blocks.
      const torch::Tensor x0 = rms_norm(model->embed(ids.unsqueeze(0)));
      return torch::linear(x0, value_of(model, layer).projection.to(x0.scalar_type())).squeeze(0);
    });
  };
  if (value.source == "first_layer") {
    result.tables["shared_bank.table"] = table_of(0);
    result.parameters = module_state(*model);
    value.shared = true;
    // A rule would give layer 0 a table as well.
    value.layers = targets;
  } else {
    for (const int64_t layer : targets) result.tables[value_name(layer, "bank.table")] = table_of(layer);
    const bool replaces = value.combine == ValueCombine::replace;
    result.parameters = without_projections(model, replaces ? targets : std::vector<int64_t>());
  }
  value.source = "bank";
  return result;
}

ValueMeans::ValueMeans(GPT model, const TargetLayers& layers)
    : model_(std::move(model)), options_(model_->options()) {
  const ValueSpec& spec = options_.value;
  const bool standard = spec.source == "stream" && spec.coefficient == ValueCoefficient::fixed(1);
  TORCH_CHECK(standard,
              "means of values are taken of a standard model (source 'stream', coefficient 1); the values of "
              "this one are ",
              to_string(spec.coefficient), "·'", spec.source, "'");
  options_.value = value_preset("bov");
  options_.value.layers = layers;
  layers_ = target_layers(options_.value, options_.n_layer);
  const auto on_device = model_->embedding.options().requires_grad(false);
  counts_ = torch::zeros({options_.vocab_size}, on_device.dtype(torch::kInt64));
  const auto dtype = options_.compute_dtype == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
  for (size_t i = 0; i < layers_.size(); ++i) {
    means_.push_back(torch::zeros({options_.vocab_size, options_.n_kv_head * options_.head_dim()},
                                  on_device.dtype(dtype)));
  }
}

void ValueMeans::add(const torch::Tensor& token_ids, const torch::Tensor& counted) {
  const c10::NoGradGuard no_grad;
  if (counted.defined()) {
    TORCH_CHECK(counted.scalar_type() == torch::kBool && counted.sizes() == token_ids.sizes(),
                "ValueMeans: counted is ", counted.scalar_type(), " ", counted.sizes(), "; expected Bool ",
                token_ids.sizes());
  }
  // Of [B·T, ..] those that count.
  const auto counted_of = [&](const torch::Tensor& positions) {
    return counted.defined() ? positions.index({counted.flatten()}) : positions;
  };
  const torch::Tensor counted_ids = counted_of(token_ids.flatten());
  if (counted_ids.numel() == 0) return;
  const auto [ids, place, count] =
      at::_unique2(counted_ids, /*sorted=*/true, /*return_inverse=*/true, /*return_counts=*/true);
  const torch::Tensor seen = counts_.index_select(0, ids) + count;
  // A mean that moves towards each batch's: unlike a sum it does not lose digits as the text grows.
  const auto observe = [&, &ids = ids, &place = place, &count = count](torch::Tensor& means,
                                                                       const torch::Tensor& values) {
    torch::Tensor mean = means.index_select(0, ids);
    const torch::Tensor counted_values = counted_of(values.flatten(0, 1).flatten(1)).to(mean.scalar_type());
    const torch::Tensor sum = torch::zeros_like(mean).index_add_(0, place, counted_values);
    mean += (sum - count.unsqueeze(1) * mean) / seen.unsqueeze(1);
    means.index_copy_(0, ids, mean);
  };
  torch::Tensor x = model_->embed(token_ids);
  if (!model_->smear.is_empty()) x = model_->smear->forward(x);
  const auto positions =
      torch::arange(token_ids.size(1), torch::TensorOptions(torch::kInt64).device(token_ids.device()));
  const RotaryTables rotary =
      rotary_tables(positions, options_.head_dim(), options_.rotary_base, options_.compute_dtype);
  ValueInputs inputs;
  inputs.token_ids = token_ids;
  size_t next = 0;
  model_->run_blocks(x, inputs, [&](int64_t layer, CausalSelfAttentionImpl& attention, ValueInputs& inputs) {
    const torch::Tensor values = attention.values(inputs);
    if (next < layers_.size() && layers_[next] == layer) observe(means_[next++], values);
    return attention.attend(inputs.hidden, values, rotary);
  });
  counts_.index_copy_(0, ids, seen);
}

int64_t ValueMeans::tokens() const {
  return counts_.sum().item<int64_t>();
}

int64_t ValueMeans::rows_seen() const {
  return counts_.count_nonzero().item<int64_t>();
}

BankModel ValueMeans::bank_model() const {
  const int64_t total = tokens();
  TORCH_CHECK(total > 0, "means of values: no token was added; expected at least one");
  BankModel result{.options = options_, .parameters = without_projections(model_, layers_)};
  for (size_t i = 0; i < layers_.size(); ++i) {
    const torch::Tensor means = means_[i], counts = counts_;
    const torch::Tensor share = counts.to(means.scalar_type()) / total;
    const torch::Tensor unseen_row = torch::matmul(share, means);
    result.tables[value_name(layers_[i], "bank.table")] =
        table_rows(options_, [means, counts, unseen_row](int64_t begin, int64_t end) {
          const torch::Tensor unseen = counts.slice(0, begin, end).eq(0).unsqueeze(1);
          return torch::where(unseen, unseen_row, means.slice(0, begin, end));
        });
    result.parameters[value_name(layers_[i], "gamma")] =
        torch::ones({1}, model_->head.options().requires_grad(false));
  }
  return result;
}

}  // namespace bov
