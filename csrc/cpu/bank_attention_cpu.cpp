#include <ATen/ATen.h>
#include <torch/library.h>

#include <algorithm>

#include "csrc/bank_attention_contract.h"
#include "csrc/reference/bank_attention_reference.h"

namespace bov::ops {
namespace {

void check_lengths(const at::Tensor& lengths, int64_t queries, int64_t slots) {
  const auto length = lengths.accessor<int64_t, 1>();
  for (int64_t b = 0; b < lengths.size(0); ++b) {
    TORCH_CHECK(length[b] == 0 || (length[b] >= queries && length[b] <= slots), "bank_attention: lengths[", b,
                "] is ", length[b], "; it must be 0 or from ", queries, " (queries) to ", slots, " (slots)");
  }
}

void check_ids(
    const at::Tensor& ids, const at::Tensor& lengths, int64_t queries, int64_t left, int64_t rows) {
  const at::Tensor list = ids.to(at::kLong).contiguous();
  const auto id = list.accessor<int64_t, 2>();
  const auto length = lengths.accessor<int64_t, 1>();
  for (int64_t b = 0; b < ids.size(0); ++b) {
    const int64_t earlier = std::max<int64_t>(0, length[b] - queries);
    for (int64_t j = earlier - std::min(left, earlier); j < length[b]; ++j) {
      TORCH_CHECK_INDEX(id[b][j] >= 0 && id[b][j] < rows, "bank_attention: id ", id[b][j], " at ids[", b,
                        ", ", j, "] is outside the table of ", rows, " rows");
    }
  }
}

at::Tensor bank_attention_cpu(const at::Tensor& q,
                              const at::Tensor& keys,
                              const at::Tensor& table,
                              const at::Tensor& ids,
                              const at::Tensor& lengths,
                              int64_t left,
                              const std::optional<at::Tensor>& scale,
                              const std::optional<at::Tensor>& row_scale,
                              c10::string_view algorithm) {
  algorithm_named(algorithm);
  check_bank_attention(q, keys, table, ids, lengths, left, scale, row_scale);
  check_lengths(lengths, q.size(1), keys.size(1));
  check_ids(ids, lengths, q.size(1), left, table.size(0));
  return reference::bank_attention(q, keys, table, ids, lengths, left, scale, row_scale);
}

}  // namespace

TORCH_LIBRARY_IMPL(bov, CPU, m) {
  m.impl("bank_attention", bank_attention_cpu);
}

}  // namespace bov::ops
