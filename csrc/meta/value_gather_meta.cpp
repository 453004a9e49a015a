#include <ATen/ATen.h>
#include <torch/library.h>

#include "csrc/value_gather_contract.h"

namespace bov::ops {
namespace {

at::Tensor value_gather_meta(const at::Tensor& table,
                             const at::Tensor& ids,
                             const std::optional<at::Tensor>& scale,
                             std::optional<at::ScalarType> dtype) {
  const at::ScalarType out = check_value_gather(table, ids, scale, dtype);
  return at::empty_symint(value_gather_shape(table, ids), table.options().dtype(out));
}

std::tuple<at::Tensor, at::Tensor> value_gather_backward_meta(const at::Tensor& grad,
                                                              const at::Tensor& table,
                                                              const at::Tensor& ids,
                                                              const std::optional<at::Tensor>& scale,
                                                              bool table_gradient,
                                                              bool scale_gradient) {
  check_value_gather_backward(grad, table, ids, scale, scale_gradient);
  const at::Tensor unasked = at::empty({0}, table.options());
  return {table_gradient ? at::empty_symint(table.sym_sizes(), table.options()) : unasked,
          scale_gradient ? at::empty_symint(scale->sym_sizes(), scale->options()) : unasked.clone()};
}

}  // namespace

TORCH_LIBRARY_IMPL(bov, Meta, m) {
  m.impl("value_gather", value_gather_meta);
  m.impl("_value_gather_backward", value_gather_backward_meta);
}

}  // namespace bov::ops
