#include <ATen/ATen.h>
#include <torch/types.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "bov/decode/cached_attention.h"
#include "bov/value/presets.h"
#include "csrc/bank_attention.h"
#include "experiments/bench/ops/decode_problem.h"
#include "experiments/bench/ops/op_benches.h"

namespace bov::experiments {
namespace {

constexpr int64_t kShortWindow = 513;
/// Layers have caches of their own up to this many bytes of keys; beyond, where no cache of the processor holds one
/// layer's, they share one, so that long contexts fit into memory.
constexpr int64_t kDistinctBytes = int64_t{1} << 30;

/// What a layer keeps: the newest `slots` tokens.
struct LayerCaches {
  int64_t slots = 0;
  at::Tensor keys;    // [B, slots, H, D]
  at::Tensor values;  // [B, slots, H, D], for the V cache
  at::Tensor ids;     // [B, slots] int16
  at::Tensor lengths;
  std::vector<int64_t> host_lengths;
};

class AttentionFixture {
 public:
  AttentionFixture(const BenchInputs& inputs, const DecodeProblem& problem)
      : options_(problem.options(value_preset("bov"))), problem_(problem) {
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
  }

  using Attend = at::Tensor (AttentionFixture::*)(size_t target, const at::Tensor& q);

  BenchCase make_case(const std::string& method, Attend attend, bool keeps_values) {
    BenchCase made{.method = method,
                   .run =
                       [=, this] {
                         for (size_t target = 0; target < targets_.size(); ++target)
                           (this->*attend)(target, query_);
                       },
                   .tokens = static_cast<double>(problem_.batch),
                   .facts = problem_.facts()};
    // Of the target layers; the shared memory of long contexts counts for each.
    int64_t cache_bytes = 0, table_bytes = 0;
    for (size_t target = 0; target < targets_.size(); ++target) {
      const LayerCaches& cache = caches(target);
      cache_bytes += static_cast<int64_t>(cache.keys.nbytes());
      cache_bytes += static_cast<int64_t>(keeps_values ? cache.values.nbytes() : cache.ids.nbytes());
      if (!keeps_values) table_bytes += static_cast<int64_t>(tables_[target].nbytes());
    }
    made.facts["cache_bytes"] = cache_bytes;
    made.facts["table_bytes"] = table_bytes;
    return made;
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

  GPTOptions options_;
  DecodeProblem problem_;
  std::vector<int64_t> targets_;
  std::vector<at::Tensor> tables_;  // of each target layer
  at::Tensor history_;              // [B, T] int64
  std::vector<LayerCaches> caches_;
  at::Tensor query_, gamma_;
};

std::vector<BenchCase> attention_cases(const BenchInputs& inputs, const DecodeProblem& problem) {
  using enum ops::BankAlgorithm;
  const auto fixture = std::make_shared<AttentionFixture>(inputs, problem);
  std::vector<BenchCase> cases{
      fixture->make_case("V cache", &AttentionFixture::with_value_cache, /*keeps_values=*/true),
      fixture->make_case("as published", &AttentionFixture::as_published, /*keeps_values=*/false),
      fixture->make_case("bov, indirect", &AttentionFixture::from_bank<indirect>, /*keeps_values=*/false),
      fixture->make_case("bov, aggregated", &AttentionFixture::from_bank<aggregated>, /*keeps_values=*/false),
      fixture->make_case("bov, automatic", &AttentionFixture::from_bank<automatic>, /*keeps_values=*/false)};
  for (BenchCase& method : cases) {
    method.run = [run = std::move(method.run), fixture] { run(); };
  }
  return cases;
}

}  // namespace

std::vector<BenchGroup> decode_attention_benches(const BenchInputs& inputs) {
  std::vector<BenchGroup> groups;
  for (const int64_t batch : {1, 8}) {
    for (const char* windows : {"L", "SSSL"}) {
      for (const int64_t tokens : {2048, 8192, 32768, 131072}) {
        // Keys and values of one layer would take 6 GiB.
        if (batch * tokens > 262144) continue;
        const DecodeProblem problem{"target layers' attention", windows, tokens, batch};
        groups.push_back(
            {.op = "decode", .problem = problem.text(), .baseline = "V cache", .make = [&inputs, problem] {
               return attention_cases(inputs, problem);
             }});
      }
    }
  }
  return groups;
}

}  // namespace bov::experiments
