#include "bov/attention/windowed_attention.h"

#include <ATen/ops/scaled_dot_product_attention.h>

#include <cmath>
#include <limits>

namespace bov {
namespace {

constexpr double kMasked = -std::numeric_limits<double>::infinity();

void check_shapes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v, int64_t left) {
  TORCH_CHECK(q.dim() == 4 && k.dim() == 4 && v.dim() == 4,
              "windowed_attention: q, k and v must be [B, T, heads, D], got ", q.sizes(), ", ", k.sizes(),
              " and ", v.sizes());
  TORCH_CHECK(k.sizes() == v.sizes(), "windowed_attention: k and v must have one shape, got ", k.sizes(),
              " and ", v.sizes());
  TORCH_CHECK(q.size(0) == k.size(0) && q.size(1) == k.size(1) && q.size(3) == k.size(3),
              "windowed_attention: q and k differ in B, T or D: ", q.sizes(), " and ", k.sizes());
  TORCH_CHECK(k.size(2) > 0 && q.size(2) % k.size(2) == 0, "windowed_attention: the number of query heads (",
              q.size(2), ") must be a multiple of the number of kv heads (", k.size(2), ")");
  TORCH_CHECK(left >= 0, "windowed_attention: left must be 0 or more, got ", left);
}

/// 0 where query `first_query + i` sees key `first_key + j`, -inf elsewhere: [queries, keys].
torch::Tensor window_mask(int64_t first_query,
                          int64_t queries,
                          int64_t first_key,
                          int64_t keys,
                          int64_t left,
                          const torch::TensorOptions& options) {
  const int64_t diagonal = first_query - first_key;
  const torch::Tensor hidden = torch::full({queries, keys}, kMasked, options);
  return hidden.triu(diagonal + 1) + hidden.tril(diagonal - left - 1);
}

}  // namespace

torch::Tensor windowed_attention(const torch::Tensor& q,
                                 const torch::Tensor& k,
                                 const torch::Tensor& v,
                                 int64_t left) {
  check_shapes(q, k, v, left);
  if (q.numel() == 0) return torch::zeros_like(q);
  const int64_t length = q.size(1);
  const bool grouped = q.size(2) != k.size(2);
  const torch::Tensor queries = q.transpose(1, 2), keys = k.transpose(1, 2), values = v.transpose(1, 2);
  const auto attend = [&](const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                          const std::optional<torch::Tensor>& mask) {
    return at::scaled_dot_product_attention(q, k, v, mask, /*dropout_p=*/0.0, /*is_causal=*/!mask,
                                            std::nullopt, grouped);
  };
  if (left >= length - 1) return attend(queries, keys, values, std::nullopt).transpose(1, 2);

  // A block as long as the window wastes at most half of its scores; short blocks cost more launches.
  const int64_t block = std::max<int64_t>(left, 64);
  std::vector<torch::Tensor> outputs;
  torch::Tensor inner_mask;
  for (int64_t start = 0; start < length; start += block) {
    const int64_t end = std::min(start + block, length);
    const int64_t first_key = std::max<int64_t>(0, start - left);
    std::optional<torch::Tensor> mask;
    if (end > left + 1) {
      const bool inner = first_key > 0 && end - start == block;
      if (!inner || !inner_mask.defined()) {
        mask = window_mask(start, end - start, first_key, end - first_key, left,
                           q.options().requires_grad(false));
        if (inner) inner_mask = *mask;
      } else {
        mask = inner_mask;
      }
    }
    outputs.push_back(attend(queries.slice(2, start, end), keys.slice(2, first_key, end),
                             values.slice(2, first_key, end), mask));
  }
  return torch::cat(outputs, 2).transpose(1, 2);
}

torch::Tensor reference_windowed_attention(const torch::Tensor& q,
                                           const torch::Tensor& k,
                                           const torch::Tensor& v,
                                           int64_t left) {
  check_shapes(q, k, v, left);
  const int64_t length = q.size(1), groups = q.size(2) / k.size(2);
  const torch::Tensor queries = q.transpose(1, 2);
  const torch::Tensor keys = k.transpose(1, 2).repeat_interleave(groups, 1);
  const torch::Tensor values = v.transpose(1, 2).repeat_interleave(groups, 1);
  const torch::Tensor distance =
      torch::arange(length, q.device()).unsqueeze(1) - torch::arange(length, q.device());
  const torch::Tensor seen = (distance >= 0).logical_and(distance <= left);
  const double scale = 1.0 / std::sqrt(static_cast<double>(q.size(3)));
  const torch::Tensor scores = torch::matmul(queries, keys.transpose(2, 3)) * scale;
  return torch::matmul(torch::softmax(scores.masked_fill(seen.logical_not(), kMasked), -1), values)
      .transpose(1, 2);
}

}  // namespace bov
