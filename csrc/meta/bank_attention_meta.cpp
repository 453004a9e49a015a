#include <ATen/ATen.h>
#include <torch/library.h>

#include "csrc/bank_attention_contract.h"

namespace bov::ops {
namespace {

at::Tensor bank_attention_meta(const at::Tensor& q,
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
  return at::empty_symint(q.sym_sizes(), q.options());
}

}  // namespace

TORCH_LIBRARY_IMPL(bov, Meta, m) {
  m.impl("bank_attention", bank_attention_meta);
}

}  // namespace bov::ops
