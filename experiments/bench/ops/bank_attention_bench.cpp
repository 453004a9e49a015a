#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <tuple>

#include "csrc/bank_attention.h"
#include "csrc/cpu/bank_attention_scores.h"
#include "experiments/bench/ops/op_benches.h"

namespace bov::experiments {
namespace {

constexpr int64_t kRows = 32768;
constexpr int64_t kHeads = 6;
constexpr int64_t kWidth = 128;
constexpr int64_t kRowBytes = 2 * kHeads * kWidth;

/// The arguments of one decode step at one layer. `ids` has one for each slot.
struct BankStep {
  BankStep(const BenchInputs& inputs, const at::Tensor& ids)
      : ids(ids.view({1, -1})),
        distinct_bytes(kRowBytes * std::get<0>(at::_unique(ids)).numel()),
        q(at::randn({1, 1, kHeads, kWidth}, options(inputs))),
        keys(at::randn({1, ids.numel(), kHeads, kWidth}, options(inputs))),
        table(at::randn({kRows, kHeads * kWidth}, options(inputs)), distinct_bytes),
        lengths(at::full({1}, ids.numel(), ids.options())),
        scale(at::full({1}, 2.5, q.options().dtype(at::kFloat))) {}

  static at::TensorOptions options(const BenchInputs& inputs) {
    return at::device(inputs.device()).dtype(at::kBFloat16);
  }

  void attend(const at::Tensor& rows, const at::Tensor& slots, ops::BankAlgorithm algorithm) {
    ops::bank_attention(q, keys.next(), rows, slots, lengths, slots.size(1), scale, std::nullopt, algorithm);
  }
  void attend(ops::BankAlgorithm algorithm) { attend(table.next(), ids, algorithm); }

  double key_bytes() const { return static_cast<double>(kRowBytes * ids.numel()); }
  double bytes() const { return key_bytes() + static_cast<double>(distinct_bytes); }

  at::Tensor ids;
  int64_t distinct_bytes;
  at::Tensor q;
  ColdTensor keys, table;
  at::Tensor lengths, scale;
};

/// The same step with V caches; K and V caches for SDPA have its own order, [1, heads, slots, width].
struct DecodeStep : BankStep {
  DecodeStep(const BenchInputs& inputs, int64_t slots)
      : BankStep(inputs, inputs.token_ids(slots, kRows)),
        values(at::randn({slots, kHeads * kWidth}, options(inputs))),
        sdpa_keys(at::randn({1, kHeads, slots, kWidth}, options(inputs))),
        sdpa_values(at::randn({1, kHeads, slots, kWidth}, options(inputs))),
        order(at::arange(slots, ids.options()).view({1, slots})) {}

  ColdTensor values, sdpa_keys, sdpa_values;
  at::Tensor order;
};

/// The scores of a step, by the loop of the CPU kernel.
void score_alone(const at::Tensor& keys, const at::Tensor& queries, const at::Tensor& scores) {
  using Loop = ops::cpu::ScoreSlots<c10::BFloat16, float>;
  constexpr int64_t kSplit = 256;
  const int64_t slots = keys.size(1);
  at::parallel_for(0, (slots + kSplit - 1) / kSplit, 1, [&](int64_t begin, int64_t end) {
    for (int64_t split = begin; split < end; ++split) {
      const int64_t first = split * kSplit;
      ops::cpu::run_lanes<Loop>(
          Loop::Problem{{kHeads, 1, kWidth, kHeads, ops::cpu::kScoreLanes},
                        keys.const_data_ptr<c10::BFloat16>() + first * keys.stride(1),
                        keys.stride(1),
                        keys.stride(2),
                        std::min(kSplit, slots - first),
                        queries.const_data_ptr<float>(),
                        scores.mutable_data_ptr<float>() + first * ops::cpu::kScoreLanes});
    }
  });
}

std::vector<BenchCase> decode_cases(const BenchInputs& inputs, int64_t slots) {
  using ops::BankAlgorithm;
  const auto step = std::make_shared<DecodeStep>(inputs, slots);
  const double key_bytes = step->key_bytes();
  const auto sdpa = [step](const at::Tensor& values) {
    at::scaled_dot_product_attention(step->q.transpose(1, 2), step->sdpa_keys.next(), values);
  };
  const auto bov = [step](const char* name, BankAlgorithm algorithm) {
    return BenchCase{name, [step, algorithm] { step->attend(algorithm); }, step->bytes()};
  };
  std::vector<BenchCase> cases = {
      {"K/V cache, SDPA", [step, sdpa] { sdpa(step->sdpa_values.next()); }, 2 * key_bytes},
      {"gather history, scale, SDPA",
       [step, sdpa, slots] {
         const at::Tensor values =
             (at::embedding(step->table.next(), step->ids) * step->scale).to(at::kBFloat16);
         sdpa(values.view({1, slots, kHeads, kWidth}).transpose(1, 2));
       },
       step->bytes()},
      {"K/V cache, bov's loops",
       [step] { step->attend(step->values.next(), step->order, BankAlgorithm::indirect); }, 2 * key_bytes},
      bov("bov, indirect", BankAlgorithm::indirect),
      bov("bov, aggregated", BankAlgorithm::aggregated),
      bov("bov", BankAlgorithm::automatic),
  };
  if (inputs.device().is_cpu()) {
    const at::Tensor queries = at::randn({kHeads, kWidth});
    const at::Tensor scores = at::empty({slots, ops::cpu::kScoreLanes});
    cases.push_back({"K alone, bov's loop",
                     [step, queries, scores] { score_alone(step->keys.next(), queries, scores); },
                     key_bytes});
  }
  cases.push_back(copy_case(static_cast<int64_t>(key_bytes), inputs.device()));
  return cases;
}

/// As many ids, each distinct one of them `repeats` times on average.
at::Tensor repeated_ids(int64_t count, double repeats) {
  const auto distinct = std::llround(static_cast<double>(count) / repeats);
  const at::Tensor places =
      at::cat({at::arange(distinct, at::kLong), at::randint(distinct, {count - distinct}, at::kLong)});
  return at::randperm(kRows, at::kLong).index({places.index({at::randperm(count, at::kLong)})});
}

/// What the thresholds of the automatic choice are taken from.
std::vector<BenchCase> threshold_cases(const BenchInputs& inputs, int64_t slots, double repeats) {
  const auto step = std::make_shared<BankStep>(inputs, repeated_ids(slots, repeats).to(inputs.device()));
  return {{"bov, indirect", [step] { step->attend(ops::BankAlgorithm::indirect); }, step->bytes()},
          {"bov, aggregated", [step] { step->attend(ops::BankAlgorithm::aggregated); }, step->bytes()}};
}

}  // namespace

std::vector<BenchGroup> bank_attention_benches(const BenchInputs& inputs) {
  std::vector<BenchGroup> groups;
  for (const int64_t slots : {512, 4096, 32768, 131072}) {
    groups.push_back({.op = "bank_attention",
                      .problem = "decode at " + std::to_string(slots) + ", 6 heads x 128, bf16",
                      .baseline = "K/V cache, SDPA",
                      .make = [&inputs, slots] { return decode_cases(inputs, slots); }});
  }
  for (const int64_t slots : {512, 1024, 2048, 4096}) {
    for (const char* repeats : {"1.00", "1.25", "1.50", "2.00"}) {
      groups.push_back(
          {.op = "bank_attention",
           .problem = std::to_string(slots) + " slots, " + repeats + " for each distinct id",
           .baseline = "bov, indirect",
           .make = [&inputs, slots, repeats] { return threshold_cases(inputs, slots, std::stod(repeats)); }});
    }
  }
  return groups;
}

}  // namespace bov::experiments
