#include <torch/library.h>

#include "csrc/value_gather_contract.h"

namespace bov::ops {
namespace {

ValueGatherGradients value_gather_layers_backward_meta(at::TensorList grads,
                                                       at::TensorList tables,
                                                       const at::Tensor& ids,
                                                       at::TensorList scales,
                                                       at::TensorList index,
                                                       bool table_gradients,
                                                       bool scale_gradients) {
  const ValueGatherBackward arguments{grads, tables, ids, scales, index, table_gradients, scale_gradients};
  arguments.check();
  return value_gather_gradients(arguments, [](const ValueGatherLayer&) {});
}

}  // namespace

TORCH_LIBRARY_IMPL(bov, Meta, m) {
  m.impl("value_gather_layers", empty_value_gather);
  m.impl("_value_gather_layers_backward", value_gather_layers_backward_meta);
}

}  // namespace bov::ops
