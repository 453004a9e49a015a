#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <memory>
#include <string>
#include <utility>

#include "csrc/bank_attention.h"
#include "csrc/cpu/bank_attention_scores.h"
#include "experiments/bench/ops/op_benches.h"

namespace bov::experiments {
namespace {

constexpr int64_t kRows = 32768;
constexpr int64_t kHeads = 6;
constexpr int64_t kWidth = 128;

/// Copies that are read in turns, so that each call finds its input in memory and not in a cache.
class ColdTensor {
 public:
  explicit ColdTensor(const at::Tensor& tensor) : copies_(cold_copies(tensor)) {}
  const at::Tensor& next() { return copies_[turn_++ % copies_.size()]; }

 private:
  std::vector<at::Tensor> copies_;
  size_t turn_ = 0;
};

/// The arguments of one decode step at one layer; K and V caches for SDPA have its own order, [1, heads, slots, width].
struct DecodeStep {
  DecodeStep(const BenchInputs& inputs, int64_t slots)
      : q(at::randn({1, 1, kHeads, kWidth}, options(inputs))),
        keys(at::randn({1, slots, kHeads, kWidth}, options(inputs))),
        values(at::randn({slots, kHeads * kWidth}, options(inputs))),
        sdpa_keys(at::randn({1, kHeads, slots, kWidth}, options(inputs))),
        sdpa_values(at::randn({1, kHeads, slots, kWidth}, options(inputs))),
        table(at::randn({kRows, kHeads * kWidth}, options(inputs))),
        ids(inputs.token_ids(slots, kRows).view({1, slots})),
        order(at::arange(slots, ids.options()).view({1, slots})),
        lengths(at::full({1}, slots, ids.options())),
        scale(at::full({1}, 2.5, q.options().dtype(at::kFloat))) {}

  static at::TensorOptions options(const BenchInputs& inputs) {
    return at::device(inputs.device()).dtype(at::kBFloat16);
  }

  at::Tensor attend(const at::Tensor& rows, const at::Tensor& slots, ops::BankAlgorithm algorithm) {
    return ops::bank_attention(q, keys.next(), rows, slots, lengths, ids.size(1), scale, std::nullopt,
                               algorithm);
  }

  at::Tensor q;
  ColdTensor keys, values, sdpa_keys, sdpa_values, table;
  at::Tensor ids, order, lengths, scale;
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
  const double row_bytes = 2.0 * kHeads * kWidth;
  const double key_bytes = row_bytes * static_cast<double>(slots);
  const double distinct_bytes = row_bytes * static_cast<double>(std::get<0>(at::_unique(step->ids)).numel());
  const auto sdpa = [step](const at::Tensor& values) {
    at::scaled_dot_product_attention(step->q.transpose(1, 2), step->sdpa_keys.next(), values);
  };
  const auto bov = [step, bytes = key_bytes + distinct_bytes](const char* name, BankAlgorithm algorithm) {
    return BenchCase{name, [step, algorithm] { step->attend(step->table.next(), step->ids, algorithm); },
                     bytes};
  };
  std::vector<BenchCase> cases = {
      {"K/V cache, SDPA", [step, sdpa] { sdpa(step->sdpa_values.next()); }, 2 * key_bytes},
      {"gather history, scale, SDPA",
       [step, sdpa, slots] {
         const at::Tensor values =
             (at::embedding(step->table.next(), step->ids) * step->scale).to(at::kBFloat16);
         sdpa(values.view({1, slots, kHeads, kWidth}).transpose(1, 2));
       },
       key_bytes + distinct_bytes},
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

}  // namespace

std::vector<BenchGroup> bank_attention_benches(const BenchInputs& inputs) {
  std::vector<BenchGroup> groups;
  for (const int64_t slots : {512, 4096, 32768, 131072}) {
    groups.push_back({.op = "bank_attention",
                      .problem = "decode at " + std::to_string(slots) + ", 6 heads x 128, bf16",
                      .baseline = "K/V cache, SDPA",
                      .make = [&inputs, slots] { return decode_cases(inputs, slots); }});
  }
  return groups;
}

}  // namespace bov::experiments
