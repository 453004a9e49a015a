#include "csrc/value_gather.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

namespace bov::ops {

at::Tensor value_gather(const at::Tensor& table,
                        const at::Tensor& ids,
                        const std::optional<at::Tensor>& scale,
                        std::optional<at::ScalarType> dtype) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("bov::value_gather", "").typed<decltype(value_gather)>();
  return op.call(table, ids, scale, dtype);
}

}  // namespace bov::ops

TORCH_LIBRARY_FRAGMENT(bov, m) {
  m.def("value_gather(Tensor table, Tensor ids, Tensor? scale=None, ScalarType? dtype=None) -> Tensor",
        {at::Tag::pt2_compliant_tag});
  // Gradients of table and scale; one that is not asked for comes back as an empty tensor.
  m.def(
      "_value_gather_backward(Tensor grad, Tensor table, Tensor ids, Tensor? scale, bool table_gradient, "
      "bool scale_gradient) -> (Tensor, Tensor)",
      {at::Tag::pt2_compliant_tag});
}
