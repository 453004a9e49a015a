#include <ATen/ATen.h>
#include <torch/autograd.h>

#include <string>
#include <tuple>
#include <vector>

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
};

/// The inputs of calls that follow each other: each finds its rows and ids in memory and not in a cache.
std::vector<GatherInputs> cold_inputs(const BenchInputs& inputs, const GatherSize& size) {
  const at::Tensor ids = inputs.token_ids(size.ids, kRows);
  const at::Tensor table = at::randn({kRows, size.width}, at::device(inputs.device())).to(size.table);
  const int64_t distinct_bytes =
      std::get<0>(at::_unique(ids)).numel() * table.stride(0) * table.element_size();
  const ColdTensor tables(table, distinct_bytes + static_cast<int64_t>(size.result_bytes()));
  std::vector<GatherInputs> all;
  for (const at::Tensor& copy : tables.copies()) {
    all.push_back({copy, ids.clone(), at::full({1}, 2.5, at::device(inputs.device()))});
  }
  return all;
}

/// A case whose calls take one of `items` after the other.
template <typename Item, typename Body>
BenchCase in_turns(const char* method, const std::vector<Item>& items, double bytes, const Body& body) {
  return {method, [items, body, turn = size_t{0}]() mutable { body(items[turn++ % items.size()]); }, bytes};
}

/// What a model without the operator computes, with γ in the table's dtype as published.
at::Tensor eager(const GatherInputs& in, at::ScalarType out) {
  return (at::embedding(in.table, in.ids) * in.scale.to(in.table.scalar_type())).to(out);
}

std::vector<BenchCase> forward_cases(const BenchInputs& inputs, const GatherSize& size) {
  const std::vector<GatherInputs> items = cold_inputs(inputs, size);
  const double bytes = size.row_bytes() + size.result_bytes();
  const auto bov = [out = size.out](const GatherInputs& in) {
    ops::value_gather(in.table, in.ids, in.scale, out);
  };
  return {in_turns(kEager, items, bytes, [out = size.out](const GatherInputs& in) { eager(in, out); }),
          in_turns("bov", items, bytes, bov), copy_case(static_cast<int64_t>(bytes / 2), inputs.device())};
}

/// Values, what they were made from, and their gradient.
struct Graph {
  at::Tensor table, scale, values, weight;
};

/// The backward pass alone, of graphs that are built once: gradients of the table and of γ.
std::vector<BenchCase> backward_cases(const BenchInputs& inputs, const GatherSize& size) {
  std::vector<GatherInputs> items = cold_inputs(inputs, size);
  std::vector<at::Tensor> weights;
  for (GatherInputs& in : items) {
    in.table.requires_grad_(true);
    in.scale.requires_grad_(true);
    weights.push_back(at::randn({size.ids, size.width}, in.ids.options().dtype(at::kFloat)).to(size.out));
  }
  const double bytes = size.result_bytes() + static_cast<double>(items[0].table.nbytes());
  const auto backward = [&](const char* method, const auto& gather) {
    std::vector<Graph> graphs;
    for (size_t i = 0; i < items.size(); ++i) {
      graphs.push_back({items[i].table, items[i].scale, gather(items[i]), weights[i]});
    }
    return in_turns(method, graphs, bytes, [](const Graph& g) {
      torch::autograd::grad({g.values}, {g.table, g.scale}, {g.weight}, /*retain_graph=*/true);
    });
  };
  const auto with_index = [&](const GatherInputs& in) {
    return ops::value_gather(in.table, in.ids, in.scale, size.out, ops::token_index(in.ids, kRows));
  };
  return {
      backward(kEager, [&](const GatherInputs& in) { return eager(in, size.out); }),
      backward(
          "bov",
          [&](const GatherInputs& in) { return ops::value_gather(in.table, in.ids, in.scale, size.out); }),
      backward("bov, index shared", with_index), copy_case(static_cast<int64_t>(bytes / 2), inputs.device())};
}

/// The rows of all layers are more than a cache holds, so one set of tables is enough.
std::vector<BenchCase> layers_cases(const BenchInputs& inputs, const GatherSize& size) {
  const auto device = at::device(inputs.device());
  const at::Tensor ids = inputs.token_ids(size.ids, kRows), scale = at::full({1}, 2.5, device);
  std::vector<at::Tensor> tables;
  for (int i = 0; i < kLayers; ++i) tables.push_back(at::randn({kRows, size.width}, device).to(size.table));
  const std::vector<at::Tensor> scales(kLayers, scale);
  const double bytes = kLayers * (size.row_bytes() + size.result_bytes());
  const auto one_by_one = [=] {
    std::vector<at::Tensor> values;
    for (const at::Tensor& table : tables) {
      values.push_back(ops::value_gather(table, ids, scale, size.out));
    }
  };
  return {{"one by one", one_by_one, bytes},
          {"all at once", [=] { ops::value_gather_layers(tables, ids, scales, size.out); }, bytes}};
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
