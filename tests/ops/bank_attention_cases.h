#pragma once

#include <ATen/ATen.h>

#include <optional>

#include "csrc/bank_attention.h"
#include "csrc/reference/bank_attention_reference.h"

namespace bov::testing {

/// Random arguments of bank_attention.
struct BankCase {
  at::Tensor q, keys, table, ids, lengths;
  int64_t left = 1 << 20;
  std::optional<at::Tensor> scale, row_scale;

  at::Tensor run(ops::BankAlgorithm algorithm = ops::BankAlgorithm::automatic) const {
    return ops::bank_attention(q, keys, table, ids, lengths, left, scale, row_scale, algorithm);
  }

  at::Tensor reference() const {
    return ops::reference::bank_attention(q, keys, table, ids, lengths, left, scale, row_scale);
  }

  /// What exact arithmetic on the same stored numbers gives.
  at::Tensor exact_reference() const {
    const auto wide = [](const at::Tensor& x) { return x.to(at::kDouble); };
    at::Tensor rows = wide(table);
    if (row_scale.has_value()) {
      rows = rows * wide(*row_scale).unsqueeze(1);
    }
    return ops::reference::bank_attention(wide(q), wide(keys), rows, ids, lengths, left, scale);
  }
};

struct BankSizes {
  int64_t batch = 2, queries = 1, heads = 3, key_heads = 3, width = 5, slots = 37, rows = 11;
};

/// Sequences of different lengths: the first is full, the others are shorter. Every third id is the same.
inline BankCase bank_case(const BankSizes& s, at::ScalarType dtype = at::kDouble) {
  BankCase c;
  c.q = at::randn({s.batch, s.queries, s.heads, s.width}, at::kDouble).to(dtype);
  c.keys = at::randn({s.batch, s.slots, s.key_heads, s.width}, at::kDouble).to(dtype);
  c.table = at::randn({s.rows, s.key_heads * s.width}, at::kDouble).to(dtype);
  c.ids = at::randint(s.rows, {s.batch, s.slots}, at::kLong);
  c.ids = c.ids.masked_fill(at::rand({s.batch, s.slots}) < 0.33, s.rows / 2);
  c.lengths = at::empty({s.batch}, at::kLong);
  for (int64_t b = 0; b < s.batch; ++b) {
    c.lengths[b] = s.slots - b * (s.slots - s.queries) / std::max<int64_t>(1, s.batch);
  }
  return c;
}

}  // namespace bov::testing
