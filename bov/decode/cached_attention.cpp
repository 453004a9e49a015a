#include "bov/decode/cached_attention.h"

#include <ATen/ops/scaled_dot_product_attention.h>

#include <algorithm>

namespace bov {
namespace {

/// Queries that share one slice of keys: fewer waste less on keys that only some of them see.
constexpr int64_t kQueryBlock = 256;

}  // namespace

torch::Tensor cached_attention(const torch::Tensor& q,
                               const torch::Tensor& keys,
                               const torch::Tensor& values,
                               const std::vector<int64_t>& lengths,
                               int64_t left) {
  TORCH_CHECK(q.dim() == 4 && keys.dim() == 4 && keys.sizes() == values.sizes() &&
                  q.size(0) == keys.size(0) && q.size(3) == keys.size(3) && q.size(2) % keys.size(2) == 0,
              "cached_attention: expected q [B, Q, H, D] and keys and values [B, S, Hkv, D], got ", q.sizes(),
              ", ", keys.sizes(), " and ", values.sizes());
  const int64_t queries = q.size(1), slots = keys.size(1);
  const auto [shortest, longest] = std::minmax_element(lengths.begin(), lengths.end());
  TORCH_CHECK(static_cast<int64_t>(lengths.size()) == q.size(0) && *shortest >= queries && *longest <= slots,
              "cached_attention: expected ", q.size(0), " lengths in [", queries, ", ", slots, "], got ",
              torch::IntArrayRef(lengths));
  const bool grouped = q.size(2) != keys.size(2);
  const auto options = torch::TensorOptions(torch::kInt64).device(q.device());
  std::vector<torch::Tensor> outputs;
  for (int64_t start = 0; start < queries; start += kQueryBlock) {
    const int64_t end = std::min(start + kQueryBlock, queries);
    const int64_t first = std::max<int64_t>(0, *shortest - queries + start - left);
    const int64_t last = *longest - queries + end;
    std::optional<torch::Tensor> mask;
    const bool all_seen = end - start == 1 && *shortest == *longest;
    if (!all_seen) {
      const torch::Tensor newest =
          (torch::tensor(lengths, torch::kInt64).to(q.device()) - queries).view({-1, 1, 1, 1}) +
          torch::arange(start, end, options).view({1, 1, -1, 1});
      const torch::Tensor slot = torch::arange(first, last, options);
      mask = (slot <= newest).logical_and_(slot >= newest - left);
    }
    const auto heads = [](const torch::Tensor& x, int64_t begin, int64_t end) {
      return x.slice(1, begin, end).transpose(1, 2);
    };
    outputs.push_back(at::scaled_dot_product_attention(heads(q, start, end), heads(keys, first, last),
                                                       heads(values, first, last), mask, /*dropout_p=*/0.0,
                                                       /*is_causal=*/false, std::nullopt, grouped));
  }
  return torch::cat(outputs, 2).transpose(1, 2);
}

}  // namespace bov
