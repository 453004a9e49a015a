#include <ATen/ATen.h>

#include <string>

#include "csrc/value_gather.h"
#include "experiments/bench/ops/op_benches.h"

namespace bov::experiments {
namespace {

constexpr int64_t kRows = 32768;

struct GatherSize {
  int64_t ids, width;
  at::ScalarType dtype;

  std::string text() const {
    return std::to_string(ids) + " ids x " + std::to_string(width) + ", " +
           (dtype == at::kBFloat16 ? "bf16" : "fp32");
  }
};

constexpr GatherSize kSizes[] = {{2048, 768, at::kFloat},
                                 {32768, 768, at::kFloat},
                                 {32768, 768, at::kBFloat16},
                                 {32768, 1536, at::kBFloat16}};

/// Rows times γ, in the table's dtype.
std::vector<BenchCase> forward_cases(const BenchInputs& inputs, const GatherSize& size) {
  const at::TensorOptions options = at::device(inputs.device());
  const at::Tensor table = at::randn({kRows, size.width}, options).to(size.dtype);
  const at::Tensor ids = inputs.token_ids(size.ids, kRows);
  const at::Tensor scale = at::full({1}, 2.5, options);
  BenchCase copy = copy_case(size.ids * size.width * table.element_size(), inputs.device());
  const double bytes = copy.bytes;
  return {
      {"embedding, multiply, cast", [=] { (at::embedding(table, ids) * scale).to(table.scalar_type()); },
       bytes},
      {"bov", [=] { ops::value_gather(table, ids, scale); }, bytes},
      std::move(copy),
  };
}

}  // namespace

std::vector<BenchGroup> value_gather_benches(const BenchInputs& inputs) {
  std::vector<BenchGroup> groups;
  for (const GatherSize& size : kSizes) {
    groups.push_back({.op = "value_gather",
                      .problem = "forward, " + size.text(),
                      .baseline = "embedding, multiply, cast",
                      .make = [&inputs, size] { return forward_cases(inputs, size); }});
  }
  return groups;
}

}  // namespace bov::experiments
