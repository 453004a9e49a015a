#include "csrc/reference/bank_attention_reference.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>

#include "csrc/bank_attention_contract.h"

namespace bov::ops::reference {
namespace {

/// True where query i of a sequence of `length` slots sees slot j: [queries, length].
at::Tensor seen_slots(int64_t queries, int64_t length, int64_t left, at::Device device) {
  const auto options = at::TensorOptions(device).dtype(at::kLong);
  const at::Tensor query = at::arange(length - queries, length, options).unsqueeze(1);
  const at::Tensor slot = at::arange(length, options);
  return (slot <= query).logical_and(slot >= query - std::min(left, length));
}

}  // namespace

at::Tensor bank_attention(const at::Tensor& q,
                          const at::Tensor& keys,
                          const at::Tensor& table,
                          const at::Tensor& ids,
                          const at::Tensor& lengths,
                          int64_t left,
                          const std::optional<at::Tensor>& scale,
                          const std::optional<at::Tensor>& row_scale) {
  check_bank_attention(q, keys, table, ids, lengths, left, scale, row_scale);
  const at::ScalarType compute = compute_type(q.scalar_type());
  const int64_t queries = q.size(1);
  const int64_t key_heads = keys.size(2);
  const int64_t group = q.size(2) / key_heads;
  at::Tensor out = at::zeros_like(q, q.options(), at::MemoryFormat::Contiguous);
  const at::Tensor list = lengths.cpu();
  for (int64_t b = 0; b < q.size(0); ++b) {
    const int64_t length = list[b].item<int64_t>();
    if (length == 0 || queries == 0) {
      continue;
    }
    const at::Tensor history = ids[b].slice(0, 0, length).to(at::kLong);
    at::Tensor values = table.index_select(0, history).to(compute);  // [length, key heads * head size]
    if (row_scale.has_value()) {
      values = values * row_scale->index_select(0, history).to(compute).unsqueeze(1);
    }
    if (scale.has_value()) {
      values = values * scale->to(compute).reshape({});
    }
    const auto per_head = [&](const at::Tensor& slots) {  // [heads, length, head size]
      return slots.reshape({length, key_heads, q.size(3)}).transpose(0, 1).repeat_interleave(group, 0);
    };
    const at::Tensor query = q[b].to(compute).transpose(0, 1);  // [heads, queries, head size]
    const at::Tensor key = per_head(keys[b].slice(0, 0, length).to(compute));
    const at::Tensor scores =
        at::matmul(query, key.transpose(1, 2)) / std::sqrt(static_cast<double>(q.size(3)));
    const at::Tensor hidden = seen_slots(queries, length, left, q.device()).logical_not();
    const at::Tensor weights =
        at::softmax(scores.masked_fill(hidden, -std::numeric_limits<double>::infinity()), -1);
    out[b].copy_(at::matmul(weights, per_head(values)).transpose(0, 1));
  }
  return out;
}

}  // namespace bov::ops::reference
