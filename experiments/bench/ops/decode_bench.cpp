#include <ATen/ATen.h>
#include <torch/types.h>

#include <algorithm>
#include <memory>
#include <string>

#include "bov/decode/cached_attention.h"
#include "bov/model/gpt.h"
#include "bov/value/presets.h"
#include "csrc/bank_attention.h"
#include "experiments/bench/ops/op_benches.h"

namespace bov::experiments {
namespace {

/// The paper's 12-layer model; a batch of `batch` sequences, each of `tokens` tokens so far.
struct DecodeProblem {
  std::string windows;  ///< letters of the layers' pattern; L reaches over all tokens
  int64_t tokens;
  int64_t batch;
  bool whole_step;  ///< a token through the whole model, or attention of the target layers alone

  std::string text() const {
    return std::string(whole_step ? "whole step" : "target layers' attention") + ", " +
           (windows == "L" ? "all long" : windows) + ", T " + std::to_string(tokens / 1024) + "K, batch " +
           std::to_string(batch);
  }
};

constexpr int64_t kShortWindow = 513;
/// Layers have caches of their own up to this many bytes of keys; beyond, where no cache of the processor holds one
/// layer's, they share one, so that long contexts fit into memory.
constexpr int64_t kDistinctBytes = int64_t{1} << 30;

GPTOptions paper_options(const DecodeProblem& problem) {
  GPTOptions options;
  options.window_pattern = problem.windows;
  options.value = value_preset("bov");
  return options;
}

/// What a layer keeps: the newest `slots` tokens.
struct LayerCaches {
  int64_t slots = 0;
  at::Tensor keys;    // [B, slots, H, D]
  at::Tensor values;  // [B, slots, H, D], for the V cache
  at::Tensor ids;     // [B, slots] int16
  at::Tensor lengths;
  std::vector<int64_t> host_lengths;
};

class DecodeFixture {
 public:
  DecodeFixture(const BenchInputs& inputs, const DecodeProblem& problem)
      : options_(paper_options(problem)), problem_(problem), model_(nullptr) {
    const torch::NoGradGuard no_grad;
    if (problem.whole_step) {
      model_ = GPT(options_);
      for (auto& parameter : model_->parameters()) parameter.normal_(0, 0.02);
      model_->to(inputs.device());
    }
    const auto device = at::device(inputs.device());
    targets_ = target_layers(options_.value, options_.n_layer);
    for (size_t i = 0; i < targets_.size(); ++i) {
      tables_.push_back(at::randn({options_.vocab_size, options_.n_embd}, device));
    }
    history_ = inputs.token_ids(problem.batch * problem.tokens, options_.vocab_size)
                   .view({problem.batch, problem.tokens});
    const std::vector<int64_t> left = options_.window_left();
    for (int64_t layer = 0; layer < options_.n_layer; ++layer) {
      const bool is_long = left[layer] >= options_.sequence_length;
      caches_.push_back(
          make_caches(is_long ? problem.tokens : std::min(problem.tokens, kShortWindow), device));
    }
    query_ = at::randn({problem.batch, 1, options_.n_head, options_.head_dim()}, device);
    gamma_ = at::full({1}, 1.5, device);
    value_projection_ = at::randn({options_.n_embd, options_.n_embd}, device) * 0.02;
  }

  using Attend = at::Tensor (DecodeFixture::*)(size_t target, const at::Tensor& q);

  BenchCase make_case(const std::string& method, Attend attend, bool keeps_values) {
    if (problem_.whole_step) return {method, [=, this] { step(attend, keeps_values); }};
    return {method, [=, this] {
              for (size_t target = 0; target < targets_.size(); ++target) (this->*attend)(target, query_);
            }};
  }

  at::Tensor with_value_cache(size_t target, const at::Tensor& q) {
    const LayerCaches& cache = caches(target);
    return cached_attention(q, cache.keys, cache.values, cache.host_lengths, cache.slots);
  }

  /// Every layer and step gathers the rows of the whole history and multiplies them by γ, also for a short window.
  at::Tensor as_published(size_t target, const at::Tensor& q) {
    const LayerCaches& cache = caches(target);
    const at::Tensor values =
        (at::embedding(tables_[target], history_) * gamma_)
            .view({problem_.batch, problem_.tokens, options_.n_head, options_.head_dim()});
    return cached_attention(q, cache.keys, values.slice(1, problem_.tokens - cache.slots), cache.host_lengths,
                            cache.slots);
  }

  template <ops::BankAlgorithm algorithm>
  at::Tensor from_bank(size_t target, const at::Tensor& q) {
    const LayerCaches& cache = caches(target);
    return gamma_ * ops::bank_attention(q, cache.keys, tables_[target], cache.ids, cache.lengths, cache.slots,
                                        std::nullopt, std::nullopt, algorithm);
  }

 private:
  const LayerCaches& caches(size_t target) const { return caches_[targets_[target]]; }

  LayerCaches make_caches(int64_t slots, const at::TensorOptions& device) const {
    LayerCaches cache;
    cache.slots = slots;
    const std::vector<int64_t> shape{problem_.batch, slots, options_.n_head, options_.head_dim()};
    const bool shared = options_.n_layer * problem_.batch * slots * options_.n_embd * 4 > kDistinctBytes;
    for (const LayerCaches& other : caches_) {
      if (shared && other.slots == slots) return other;
    }
    cache.keys = at::randn(shape, device) * options_.qk_scale;
    cache.values = at::randn(shape, device);
    cache.ids = history_.slice(1, problem_.tokens - slots).to(at::kShort).contiguous();
    cache.host_lengths.assign(problem_.batch, slots);
    cache.lengths = at::full({problem_.batch}, slots, device.dtype(at::kLong));
    return cache;
  }

  /// One token of each sequence, at the last position; its key takes the newest slot.
  void step(Attend attend_target, bool keeps_values) {
    const torch::NoGradGuard no_grad;
    const at::Tensor ids = history_.slice(1, problem_.tokens - 1);
    const RotaryTables rotary = rotary_tables(at::full({1}, problem_.tokens - 1, ids.options()),
                                              options_.head_dim(), options_.rotary_base, at::kFloat);
    at::Tensor x = model_->embed(ids);
    x = model_->smear->forward(x, model_->embed(history_.slice(1, problem_.tokens - 2, -1)));
    const auto attend = [&](int64_t layer, CausalSelfAttentionImpl& attention, ValueInputs& inputs) {
      LayerCaches& cache = caches_[layer];
      const at::Tensor q = attention.queries(inputs.hidden, rotary);
      cache.keys.slice(1, cache.slots - 1).copy_(attention.keys(inputs.hidden, rotary));
      const auto target = std::find(targets_.begin(), targets_.end(), layer);
      const bool is_target = target != targets_.end();
      if (!is_target || keeps_values) {
        const at::Tensor made =
            is_target ? at::linear(inputs.hidden, value_projection_).view_as(q) : attention.values(inputs);
        cache.values.slice(1, cache.slots - 1).copy_(made);
      }
      const at::Tensor heads =
          is_target ? (this->*attend_target)(static_cast<size_t>(target - targets_.begin()), q)
                    : cached_attention(q, cache.keys, cache.values, cache.host_lengths, cache.slots);
      return attention.merge(heads);
    };
    ValueInputs inputs;
    inputs.token_ids = ids;
    model_->logits(model_->run_blocks(x, inputs, attend));
  }

  GPTOptions options_;
  DecodeProblem problem_;
  GPT model_;
  std::vector<int64_t> targets_;
  std::vector<at::Tensor> tables_;  // of each target layer
  at::Tensor history_;              // [B, T] int64
  std::vector<LayerCaches> caches_;
  at::Tensor query_, gamma_, value_projection_;
};

std::vector<BenchCase> decode_cases(const BenchInputs& inputs, const DecodeProblem& problem) {
  using enum ops::BankAlgorithm;
  const auto fixture = std::make_shared<DecodeFixture>(inputs, problem);
  std::vector<BenchCase> cases{
      fixture->make_case("V cache", &DecodeFixture::with_value_cache, /*keeps_values=*/true),
      fixture->make_case("as published", &DecodeFixture::as_published, /*keeps_values=*/false),
      fixture->make_case("bov, indirect", &DecodeFixture::from_bank<indirect>, /*keeps_values=*/false),
      fixture->make_case("bov, aggregated", &DecodeFixture::from_bank<aggregated>, /*keeps_values=*/false),
      fixture->make_case("bov, automatic", &DecodeFixture::from_bank<automatic>, /*keeps_values=*/false)};
  for (BenchCase& method : cases) {
    method.run = [run = std::move(method.run), fixture] { run(); };
  }
  return cases;
}

}  // namespace

std::vector<BenchGroup> decode_benches(const BenchInputs& inputs) {
  std::vector<BenchGroup> groups;
  for (const bool whole_step : {false, true}) {
    for (const int64_t batch : {1, 8}) {
      for (const char* windows : {"L", "SSSL"}) {
        for (const int64_t tokens : {2048, 8192, 32768, 131072}) {
          const DecodeProblem problem{windows, tokens, batch, whole_step};
          // Keys and values of one layer would take 6 GiB.
          if (batch * tokens > 262144) continue;
          groups.push_back(
              {.op = "decode", .problem = problem.text(), .baseline = "V cache", .make = [&inputs, problem] {
                 return decode_cases(inputs, problem);
               }});
        }
      }
    }
  }
  return groups;
}

}  // namespace bov::experiments
