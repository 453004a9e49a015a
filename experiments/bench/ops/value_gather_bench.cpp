#include <ATen/ATen.h>
#include <torch/autograd.h>

#include <string>

#include "csrc/value_gather.h"
#include "experiments/bench/ops/op_benches.h"

namespace bov::experiments {
namespace {

constexpr int64_t kRows = 32768;
constexpr int kLayers = 4;
constexpr const char* kEager = "embedding, multiply, cast";

struct GatherSize {
  int64_t ids, width;
  at::ScalarType table, out;

  std::string text() const {
    const auto name = [](at::ScalarType dtype) { return dtype == at::kBFloat16 ? "bf16" : "fp32"; };
    return std::to_string(ids) + " ids x " + std::to_string(width) + ", " + name(table) + " to " + name(out);
  }
  double row_bytes() const {
    return static_cast<double>(ids * width) * static_cast<double>(c10::elementSize(table));
  }
  double result_bytes() const {
    return static_cast<double>(ids * width) * static_cast<double>(c10::elementSize(out));
  }
};

constexpr GatherSize kSizes[] = {{2048, 768, at::kFloat, at::kFloat},
                                 {32768, 768, at::kFloat, at::kFloat},
                                 {32768, 768, at::kFloat, at::kBFloat16},
                                 {32768, 768, at::kBFloat16, at::kBFloat16},
                                 {32768, 1536, at::kBFloat16, at::kBFloat16}};

struct GatherInputs {
  at::Tensor table, ids, scale;

  GatherInputs(const BenchInputs& inputs, const GatherSize& size)
      : table(at::randn({kRows, size.width}, at::device(inputs.device())).to(size.table)),
        ids(inputs.token_ids(size.ids, kRows)),
        scale(at::full({1}, 2.5, at::device(inputs.device()))) {}
};

/// What a model without the operator computes, with γ in the table's dtype as published.
at::Tensor eager(const GatherInputs& in, at::ScalarType out) {
  return (at::embedding(in.table, in.ids) * in.scale.to(in.table.scalar_type())).to(out);
}

std::vector<BenchCase> forward_cases(const BenchInputs& inputs, const GatherSize& size) {
  const GatherInputs in(inputs, size);
  const double bytes = size.row_bytes() + size.result_bytes();
  return {{kEager, [=] { eager(in, size.out); }, bytes},
          {"bov", [=] { ops::value_gather(in.table, in.ids, in.scale, size.out); }, bytes},
          copy_case(static_cast<int64_t>(bytes / 2), inputs.device())};
}

/// The backward pass alone, of a graph that is built once: gradients of the table and of γ.
std::vector<BenchCase> backward_cases(const BenchInputs& inputs, const GatherSize& size) {
  GatherInputs in(inputs, size);
  in.table.requires_grad_(true);
  in.scale.requires_grad_(true);
  const at::Tensor weight =
      at::randn({size.ids, size.width}, in.ids.options().dtype(at::kFloat)).to(size.out);
  const double bytes = size.result_bytes() + static_cast<double>(in.table.nbytes());
  const auto backward = [&](const char* method, const at::Tensor& values) {
    const auto run = [=] {
      torch::autograd::grad({values}, {in.table, in.scale}, {weight}, /*retain_graph=*/true);
    };
    return BenchCase{method, run, bytes};
  };
  return {backward(kEager, eager(in, size.out)),
          backward("bov", ops::value_gather(in.table, in.ids, in.scale, size.out)),
          backward("bov, index shared",
                   ops::value_gather(in.table, in.ids, in.scale, size.out, ops::token_index(in.ids, kRows))),
          copy_case(static_cast<int64_t>(bytes / 2), inputs.device())};
}

std::vector<BenchCase> layers_cases(const BenchInputs& inputs, const GatherSize& size) {
  const GatherInputs in(inputs, size);
  std::vector<at::Tensor> tables;
  for (int i = 0; i < kLayers; ++i) tables.push_back(in.table.clone());
  const std::vector<at::Tensor> scales(kLayers, in.scale);
  const double bytes = kLayers * (size.row_bytes() + size.result_bytes());
  const auto one_by_one = [=] {
    std::vector<at::Tensor> values;
    for (const at::Tensor& table : tables) {
      values.push_back(ops::value_gather(table, in.ids, in.scale, size.out));
    }
  };
  return {{"one by one", one_by_one, bytes},
          {"all at once", [=] { ops::value_gather_layers(tables, in.ids, scales, size.out); }, bytes}};
}

}  // namespace

std::vector<BenchGroup> value_gather_benches(const BenchInputs& inputs) {
  std::vector<BenchGroup> groups;
  for (const GatherSize& size : kSizes) {
    groups.push_back({"value_gather", "forward, " + size.text(), kEager,
                      [&inputs, size] { return forward_cases(inputs, size); }});
  }
  for (const GatherSize& size : kSizes) {
    groups.push_back({"value_gather", "backward, " + size.text(), kEager,
                      [&inputs, size] { return backward_cases(inputs, size); }});
  }
  const GatherSize& size = kSizes[1];
  groups.push_back({"value_gather", "forward, " + std::to_string(kLayers) + " layers x " + size.text(),
                    "one by one", [&inputs, size] { return layers_cases(inputs, size); }});
  return groups;
}

}  // namespace bov::experiments
