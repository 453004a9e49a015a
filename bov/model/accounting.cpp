#include "bov/model/accounting.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>

#include "bov/decode/cache_layout.h"
#include "bov/value/value_sources.h"

namespace bov {
namespace {

/// Smear gate over 24 channels and λ.
constexpr int64_t kSmearParameters = 25;
/// Channels that a gated coefficient reads for each kv head.
constexpr int64_t kGateChannels = 12;
/// Forward and backward multiply-adds of one weight for one token.
constexpr int64_t kFlopsPerWeight = 6;
/// The published script scales from this model and batch.
constexpr int64_t kReferenceLayers = 12;
constexpr int64_t kReferenceWidth = 768;
constexpr int64_t kReferenceHeads = 6;
constexpr double kReferenceTokensPerStep = 524288;
constexpr double kReferenceWeightDecay = 0.28;
constexpr double kBatchExponent = 0.383;

/// What the value spec means for this model's layers.
struct ValuePlan {
  explicit ValuePlan(const GPTOptions& options)
      : source(value_source_info(options.value.source)),
        targets(target_layers(options.value, options.n_layer)),
        adds(options.value.combine == ValueCombine::add),
        gated(options.value.coefficient.kind == ValueCoefficient::Kind::gated),
        learned(options.value.coefficient.is_learned()),
        per_head(options.value.coefficient.kind == ValueCoefficient::Kind::learned_per_head) {}

  int64_t target_count() const { return static_cast<int64_t>(targets.size()); }
  /// A target layer that replaces V by something ready made owns no W_V.
  bool target_projects() const { return adds || source.projects; }
  int64_t value_projections(int64_t n_layer) const {
    return target_projects() ? n_layer : n_layer - target_count();
  }
  /// Both V and Ṽ are projections by the same W_V.
  bool target_projects_twice() const { return adds && source.projects; }

  const ValueSourceInfo& source;
  std::vector<int64_t> targets;
  bool adds;
  bool gated;
  bool learned;
  bool per_head;
};

int64_t kv_width(const GPTOptions& options) {
  return options.n_kv_head * options.head_dim();
}

int64_t projection_size(const GPTOptions& options) {
  return kv_width(options) * options.n_embd;
}

int64_t item_size(torch::Dtype dtype) {
  return static_cast<int64_t>(c10::elementSize(dtype));
}

/// FLOPs of the scores and the weighted sum, forward and backward; the published count has no causal ½.
int64_t attention_flops(const GPTOptions& options) {
  int64_t flops = 0;
  for (const int64_t left : options.window_left()) {
    flops += 12 * options.n_head * options.head_dim() * std::min(left, options.sequence_length);
  }
  return flops;
}

int64_t flops_with_value_projections(const GPTOptions& options, int64_t extra_projections) {
  const ParameterCounts counts = count_parameters(options);
  const int64_t weights = counts.matrices + counts.head + extra_projections * projection_size(options);
  return kFlopsPerWeight * weights + attention_flops(options);
}

/// Elements that the backward pass needs, a token. Attention counts as one fused operation, which keeps its
/// inputs and its output but no probabilities; logits are not kept.
int64_t saved_elements_per_token(const GPTOptions& options, const ValuePlan& plan) {
  const int64_t width = options.n_embd;
  const int64_t kv = kv_width(options);
  // Block input and its norm, query and key before and after their norm, value, attention output; then the
  // MLP's input and its norm, and its hidden layer after ReLU and after the square.
  const int64_t attention = 2 * width + 2 * (width + kv) + kv + width;
  const int64_t mlp = 2 * width + 2 * options.mlp_width();
  // What a coefficient that learns multiplies is kept to differentiate it: Ṽ, and V where α multiplies it.
  const int64_t factors = (plan.learned || plan.gated ? 1 : 0) + (plan.learned && plan.adds ? 1 : 0);
  const int64_t mixing = plan.target_count() * factors * kv;
  // Token embedding, x0, and the last norm's input and output.
  return options.n_layer * (attention + mlp) + mixing + 4 * width;
}

/// Muon keeps a momentum a weight and one second moment for each index of a matrix's longer side.
int64_t muon_state_elements(const GPTOptions& options, const ValuePlan& plan, const ParameterCounts& counts) {
  const int64_t width = options.n_embd;
  // Query, key and output are [C, C] or [Hkv·D, C], up and down [4C, C] and [C, 4C].
  int64_t second_moments = options.n_layer * (3 * width + 2 * options.mlp_width());
  second_moments += plan.value_projections(options.n_layer) * width;
  if (plan.gated) {
    second_moments += plan.target_count() * std::max(options.n_kv_head, kGateChannels);
  }
  return counts.matrices + second_moments;
}

void add_cache_bytes(const GPTOptions& options, MemoryEstimate& memory) {
  const CacheLayout layout = cache_layout(options, LongWindow::trained);
  CacheLayout with_values = layout;
  for (LayerCache& layer : with_values.layers) {
    if (layer.need == ValueCacheNeed::token_ids) layer.need = ValueCacheNeed::own_values;
  }
  const CacheBytes bytes = cache_bytes(layout, options.sequence_length, /*batch=*/1);
  memory.key_cache = bytes.keys;
  memory.value_cache = bytes.values;
  memory.value_cache_saved =
      cache_bytes(with_values, options.sequence_length, /*batch=*/1).values - bytes.values;
}

}  // namespace

ParameterCounts count_parameters(const GPTOptions& options) {
  options.validate();
  const ValuePlan plan(options);
  const int64_t width = options.n_embd;
  const int64_t layer = 2 * width * width + projection_size(options) + 2 * width * options.mlp_width();
  const int64_t targets = plan.target_count();
  const int64_t projections = plan.value_projections(options.n_layer);
  const int64_t tables = plan.source.has_table ? (options.value.shared ? 1 : targets) : 0;

  ParameterCounts counts;
  counts.embedding = options.vocab_size * width;
  counts.head = options.vocab_size * width;
  counts.matrices = options.n_layer * layer + projections * projection_size(options);
  counts.matrices += plan.gated ? targets * options.n_kv_head * kGateChannels : 0;
  counts.banks = tables * options.vocab_size * kv_width(options);
  counts.coefficients =
      plan.learned ? targets * (plan.adds ? 2 : 1) * (plan.per_head ? options.n_kv_head : 1) : 0;
  counts.smear = options.smear ? kSmearParameters : 0;
  counts.dead = (options.n_layer - projections) * projection_size(options);
  return counts;
}

int64_t flops_per_token(const GPTOptions& options) {
  options.validate();
  const ValuePlan plan(options);
  return flops_with_value_projections(options, plan.target_projects_twice() ? plan.target_count() : 0);
}

int64_t executed_flops_per_token(const GPTOptions& options) {
  options.validate();
  // One coefficient a layer goes before the matmul, (a·x + b·x0)·W; one of each kv head cannot.
  const ValuePlan plan(options);
  const bool twice = plan.target_projects_twice() && (plan.gated || plan.per_head);
  return flops_with_value_projections(options, twice ? plan.target_count() : 0);
}

int64_t steps_for_flops(double flops, int64_t flops_per_token, int64_t tokens_per_step) {
  TORCH_CHECK(std::isfinite(flops) && flops > 0, "steps_for_flops: flops is ", flops,
              "; expected a positive number");
  TORCH_CHECK(flops_per_token > 0 && tokens_per_step > 0, "steps_for_flops: flops_per_token is ",
              flops_per_token, " and tokens_per_step ", tokens_per_step, "; expected positive numbers");
  const double per_step = static_cast<double>(flops_per_token) * static_cast<double>(tokens_per_step);
  TORCH_CHECK(flops / per_step <= 0x1p53, "steps_for_flops: flops ", flops, " are ", flops / per_step,
              " steps; expected at most 2^53");
  // nearbyint rounds half to even in the default rounding mode, as Python's round does.
  return std::max<int64_t>(1, std::llrint(std::nearbyint(flops / per_step)));
}

BatchScaling published_batch_scaling(const GPTOptions& options) {
  GPTOptions reference = options;
  reference.n_layer = kReferenceLayers;
  reference.n_embd = kReferenceWidth;
  reference.n_head = kReferenceHeads;
  reference.n_kv_head = kReferenceHeads;
  // A list names layers of this depth alone; targets change the scaling parameters by a few scalars at most.
  if (std::holds_alternative<std::vector<int64_t>>(reference.value.layers)) {
    reference.value.layers = TargetRule::last_third;
  }
  const double ratio = static_cast<double>(count_parameters(options).scaling_as_published()) /
                       static_cast<double>(count_parameters(reference).scaling_as_published());
  const double predicted = kReferenceTokensPerStep * std::pow(ratio, kBatchExponent);
  const double tokens = std::exp2(std::nearbyint(std::log2(predicted)));
  const double learning_rate = std::sqrt(tokens / kReferenceTokensPerStep);
  return {static_cast<int64_t>(tokens), learning_rate, kReferenceWeightDecay * learning_rate / ratio};
}

MemoryEstimate estimate_memory(const GPTOptions& options, int64_t micro_batch) {
  TORCH_CHECK(micro_batch >= 1, "estimate_memory: micro_batch is ", micro_batch, "; expected 1 or more");
  const ParameterCounts counts = count_parameters(options);
  const ValuePlan plan(options);
  const int64_t parameter_size = item_size(options.parameter_dtype);
  const int64_t table_size = item_size(options.table_dtype);
  const int64_t tables = counts.embedding + counts.banks;
  const int64_t adam_parameters = counts.head + counts.coefficients + counts.smear;
  const int64_t tokens = micro_batch * options.sequence_length;

  MemoryEstimate memory;
  memory.weights = table_size * tables + parameter_size * (counts.matrices + adam_parameters);
  memory.gradients = memory.weights;
  memory.optimizer = 2 * table_size * tables + 2 * parameter_size * adam_parameters +
                     parameter_size * muon_state_elements(options, plan, counts);
  memory.activations = tokens * saved_elements_per_token(options, plan) * item_size(options.compute_dtype);
  add_cache_bytes(options, memory);
  return memory;
}

}  // namespace bov
