#include "bov/decode/cached_attention.h"

#include <ATen/ops/scaled_dot_product_attention.h>

#include <algorithm>

#include "csrc/bank_attention.h"

namespace bov {
namespace {

/// Queries that share one slice of keys: fewer waste less on keys that only some of them see.
constexpr int64_t kQueryBlock = 256;

/// [queries, keys] for each sequence: query `start + i` sees key `first + j`.
torch::Tensor seen_keys(const std::vector<int64_t>& oldest_query_slots,
                        int64_t start,
                        int64_t end,
                        int64_t first,
                        int64_t last,
                        int64_t left,
                        torch::Device device) {
  const auto options = torch::TensorOptions(torch::kInt64).device(device);
  const torch::Tensor newest =
      torch::tensor(oldest_query_slots, torch::kInt64).to(device).view({-1, 1, 1, 1}) +
      torch::arange(start, end, options).view({1, 1, -1, 1});
  const torch::Tensor slot = torch::arange(first, last, options);
  return (slot <= newest).logical_and_(slot >= newest - left);
}

torch::Tensor attend_by_blocks(const torch::Tensor& q,
                               const torch::Tensor& keys,
                               const torch::Tensor& values,
                               const std::vector<int64_t>& lengths,
                               int64_t left) {
  const int64_t queries = q.size(1);
  std::vector<int64_t> oldest;  // slot of each sequence's first query
  for (const int64_t length : lengths) oldest.push_back(length - queries);
  const auto [lowest, highest] = std::minmax_element(oldest.begin(), oldest.end());
  const bool grouped = q.size(2) != keys.size(2);
  const auto heads = [](const torch::Tensor& x, int64_t begin, int64_t end) {
    return x.slice(1, begin, end).transpose(1, 2);
  };
  std::vector<torch::Tensor> outputs;
  for (int64_t start = 0; start < queries; start += kQueryBlock) {
    const int64_t end = std::min(start + kQueryBlock, queries);
    const int64_t first = std::max<int64_t>(0, *lowest + start - left), last = *highest + end;
    const torch::Tensor mask = seen_keys(oldest, start, end, first, last, left, q.device());
    outputs.push_back(at::scaled_dot_product_attention(heads(q, start, end), heads(keys, first, last),
                                                       heads(values, first, last), mask, /*dropout_p=*/0.0,
                                                       /*is_causal=*/false, std::nullopt, grouped));
  }
  return torch::cat(outputs, 2).transpose(1, 2);
}

/// A V cache is a bank in which every slot has a row of its own: slot j of sequence b is row b·(slots in memory) + j.
torch::Tensor attend_to_rows(const torch::Tensor& q,
                             const torch::Tensor& keys,
                             const torch::Tensor& values,
                             const std::vector<int64_t>& lengths,
                             int64_t left) {
  const int64_t batch = values.size(0), slots = values.size(1), width = values.size(2) * values.size(3);
  const int64_t rows_apart = batch > 1 ? values.stride(0) / values.stride(1) : 0;
  const torch::Tensor rows =
      values.as_strided({(batch - 1) * rows_apart + slots, width}, {values.stride(1), 1});
  const auto options = torch::TensorOptions(torch::kInt64).device(q.device());
  const torch::Tensor numbers =
      torch::arange(batch, options).unsqueeze(1) * rows_apart + torch::arange(slots, options);
  return ops::bank_attention(q, keys, rows, numbers, torch::tensor(lengths, torch::kInt64), left,
                             std::nullopt, std::nullopt, ops::BankAlgorithm::indirect);
}

/// The rows of all sequences lie at equal distances.
bool is_row_matrix(const torch::Tensor& values) {
  return values.stride(3) == 1 && values.stride(2) == values.size(3) && values.stride(1) > 0 &&
         (values.size(0) == 1 || values.stride(0) % values.stride(1) == 0);
}

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
  // On a GPU, SDPA has a kernel for few queries of its own.
  const bool few = q.is_cpu() && queries < kFewQueries && is_row_matrix(values);
  return few ? attend_to_rows(q, keys, values, lengths, left)
             : attend_by_blocks(q, keys, values, lengths, left);
}

}  // namespace bov
