#include "csrc/value_gather.h"

#include <torch/library.h>

#include "csrc/value_gather_call.h"

namespace bov::ops {
namespace {

at::Tensor value_gather_composite(const at::Tensor& table,
                                  const at::Tensor& ids,
                                  const std::optional<at::Tensor>& scale,
                                  std::optional<at::ScalarType> dtype) {
  return value_gather(table, ids, scale, dtype);
}

}  // namespace

std::vector<at::Tensor> value_gather_layers(at::TensorList tables,
                                            const at::Tensor& ids,
                                            at::TensorList scales,
                                            std::optional<at::ScalarType> dtype,
                                            const std::optional<TokenIndex>& index) {
  if (!index.has_value()) {
    return call_value_gather_layers(tables, ids, scales, {}, dtype);
  }
  return call_value_gather_layers(tables, ids, scales,
                                  {index->positions, index->offsets, index->distinct, index->count}, dtype);
}

at::Tensor value_gather(const at::Tensor& table,
                        const at::Tensor& ids,
                        const std::optional<at::Tensor>& scale,
                        std::optional<at::ScalarType> dtype,
                        const std::optional<TokenIndex>& index) {
  const at::TensorList scales = scale.has_value() ? at::TensorList(*scale) : at::TensorList();
  return value_gather_layers(table, ids, scales, dtype, index)[0];
}

TORCH_LIBRARY_FRAGMENT(bov, m) {
  m.def(
      "value_gather_layers(Tensor[] tables, Tensor ids, Tensor[] scales, Tensor[] index, *, "
      "ScalarType? dtype=None) -> Tensor[]",
      {at::Tag::pt2_compliant_tag});
  // Gradients of tables and scales; those that are not asked for come back as empty tensors.
  m.def(
      "_value_gather_layers_backward(Tensor[] grads, Tensor[] tables, Tensor ids, Tensor[] scales, Tensor[] "
      "index, "
      "bool table_gradients, bool scale_gradients) -> (Tensor[], Tensor[])",
      {at::Tag::pt2_compliant_tag});
  m.def("value_gather(Tensor table, Tensor ids, Tensor? scale=None, ScalarType? dtype=None) -> Tensor",
        {at::Tag::pt2_compliant_tag});
}

TORCH_LIBRARY_IMPL(bov, CompositeImplicitAutograd, m) {
  m.impl("value_gather", value_gather_composite);
}

}  // namespace bov::ops
