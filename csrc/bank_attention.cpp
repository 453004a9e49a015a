#include "csrc/bank_attention.h"

#include <torch/library.h>

#include "csrc/bank_attention_call.h"
#include "csrc/bank_attention_contract.h"

namespace bov::ops {

at::Tensor bank_attention(const at::Tensor& q,
                          const at::Tensor& keys,
                          const at::Tensor& table,
                          const at::Tensor& ids,
                          const at::Tensor& lengths,
                          int64_t left,
                          const std::optional<at::Tensor>& scale,
                          const std::optional<at::Tensor>& row_scale,
                          BankAlgorithm algorithm) {
  return call_bank_attention(q, keys, table, ids, lengths, left, scale, row_scale, algorithm_name(algorithm));
}

}  // namespace bov::ops

TORCH_LIBRARY_FRAGMENT(bov, m) {
  m.def(
      "bank_attention(Tensor q, Tensor keys, Tensor table, Tensor ids, Tensor lengths, int left, "
      "Tensor? scale=None, Tensor? row_scale=None, str algorithm=\"automatic\") -> Tensor",
      {at::Tag::pt2_compliant_tag});
}
