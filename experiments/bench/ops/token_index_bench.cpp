#include <string>

#include "csrc/reference/token_index_reference.h"
#include "csrc/token_index.h"
#include "experiments/bench/ops/op_benches.h"

namespace bov::experiments {

std::vector<BenchGroup> token_index_benches(const BenchInputs& inputs) {
  constexpr int64_t kRows = 32768;
  std::vector<BenchGroup> groups;
  for (const int64_t count : {1024, 32768, 524288}) {
    groups.push_back({"token_index", std::to_string(count) + " ids of " + std::to_string(kRows),
                      "sort and unique", [&inputs, count] {
                        const at::Tensor ids = inputs.token_ids(count, kRows);
                        return std::vector<BenchCase>{
                            {"sort and unique", [=] { ops::reference::token_index(ids, kRows); }},
                            {"bov", [=] { ops::token_index(ids, kRows); }}};
                      }});
  }
  return groups;
}

}  // namespace bov::experiments
