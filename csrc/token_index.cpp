#include "csrc/token_index.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "csrc/token_index_contract.h"

namespace bov::ops {

TokenIndexTensors empty_token_index(const at::Tensor& ids, const c10::SymInt& rows) {
  const at::TensorOptions options = ids.options().dtype(at::kInt);
  const c10::SymInt capacity = distinct_capacity(ids, rows);
  return {at::empty_symint({ids.sym_numel()}, options), at::empty_symint({capacity + 1}, options),
          at::empty_symint({capacity}, options), at::empty({1}, options)};
}

TokenIndex token_index(const at::Tensor& ids, int64_t rows) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("bov::token_index", "")
                             .typed<TokenIndexTensors(const at::Tensor&, c10::SymInt)>();
  auto [positions, offsets, distinct, count] = op.call(ids, rows);
  return {std::move(positions), std::move(offsets), std::move(distinct), std::move(count)};
}

}  // namespace bov::ops

TORCH_LIBRARY_FRAGMENT(bov, m) {
  m.def(
      "token_index(Tensor ids, SymInt rows) -> (Tensor positions, Tensor offsets, Tensor distinct, Tensor "
      "count)",
      {at::Tag::pt2_compliant_tag});
}
