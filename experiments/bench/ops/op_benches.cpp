#include "experiments/bench/ops/op_benches.h"

#include <iterator>

namespace bov::experiments {

std::vector<BenchGroup> op_benches(const BenchInputs& inputs) {
  std::vector<BenchGroup> groups;
  // Single operators first: decoding takes longer than all of them.
  for (const auto& benches :
       {copy_benches, token_index_benches, value_gather_benches, windowed_attention_benches,
        bank_attention_benches, decode_attention_benches, decode_step_benches}) {
    std::ranges::move(benches(inputs), std::back_inserter(groups));
  }
  return groups;
}

}  // namespace bov::experiments
