#include <ATen/ATen.h>
#include <torch/autograd.h>

#include <functional>
#include <limits>
#include <optional>
#include <string>

#include "csrc/windowed_attention.h"
#include "experiments/bench/ops/op_benches.h"

namespace bov::experiments {
namespace {

struct AttentionSize {
  int64_t batch, length, heads, kv_heads, width, left;

  std::string text() const {
    return std::to_string(batch) + " x " + std::to_string(length) + " tokens, window " +
           std::to_string(left) + ", " + std::to_string(heads) + "/" + std::to_string(kv_heads) +
           " heads x " + std::to_string(width);
  }
};

/// The paper's 12-layer model, the same with grouped queries, and the layers of the models that a CPU trains.
constexpr AttentionSize kSizes[] = {{1, 2048, 6, 6, 128, 512},
                                    {1, 2048, 6, 2, 128, 512},
                                    {1, 2048, 6, 6, 128, 2048},
                                    {8, 256, 2, 2, 64, 128},
                                    {8, 256, 2, 2, 32, 256}};

/// Forward and backward, in float32 on the CPU and bfloat16 on CUDA.
std::vector<BenchCase> training_cases(const BenchInputs& inputs, const AttentionSize& size) {
  const auto options =
      at::device(inputs.device()).dtype(inputs.device().is_cpu() ? at::kFloat : at::kBFloat16);
  const auto random = [&](int64_t heads) {
    return at::randn({size.batch, size.length, heads, size.width}, options);
  };
  const at::Tensor q = random(size.heads).requires_grad_(), upstream = random(size.heads);
  const at::Tensor k = random(size.kv_heads).requires_grad_(), v = random(size.kv_heads).requires_grad_();
  const at::Tensor hidden =
      at::full({size.length, size.length}, -std::numeric_limits<double>::infinity(), options);
  const at::Tensor mask = hidden.triu(1) + hidden.tril(-size.left - 1);
  const auto sdpa = [=](const std::optional<at::Tensor>& mask) {
    return at::scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), mask,
                                            0.0,
                                            /*is_causal=*/!mask, std::nullopt, size.heads != size.kv_heads)
        .transpose(1, 2);
  };
  const auto with_backward = [=](const std::function<at::Tensor()>& attention) {
    return [=] { torch::autograd::grad({attention()}, {q, k, v}, {upstream}); };
  };
  return {{"masked SDPA", with_backward([=] { return sdpa(mask); })},
          {"causal SDPA without window", with_backward([=] { return sdpa(std::nullopt); })},
          {"bov", with_backward([=] { return ops::windowed_attention(q, k, v, size.left); })}};
}

}  // namespace

std::vector<BenchGroup> windowed_attention_benches(const BenchInputs& inputs) {
  std::vector<BenchGroup> groups;
  for (const AttentionSize& size : kSizes) {
    groups.push_back({.op = "windowed_attention",
                      .problem = "forward and backward, " + size.text(),
                      .baseline = "masked SDPA",
                      .make = [&inputs, size] { return training_cases(inputs, size); }});
  }
  return groups;
}

}  // namespace bov::experiments
