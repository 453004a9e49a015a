#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <vector>

#include "csrc/value_gather_contract.h"

/// The operators as the dispatcher has them, for their wrapper and for the kernels that pass them on.
namespace bov::ops {

inline std::vector<at::Tensor> call_value_gather_layers(at::TensorList tables,
                                                        const at::Tensor& ids,
                                                        at::TensorList scales,
                                                        at::TensorList index,
                                                        std::optional<at::ScalarType> dtype) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("bov::value_gather_layers", "")
                             .typed<decltype(call_value_gather_layers)>();
  return op.call(tables, ids, scales, index, dtype);
}

inline ValueGatherGradients call_value_gather_layers_backward(at::TensorList grads,
                                                              at::TensorList tables,
                                                              const at::Tensor& ids,
                                                              at::TensorList scales,
                                                              at::TensorList index,
                                                              bool table_gradients,
                                                              bool scale_gradients) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("bov::_value_gather_layers_backward", "")
                             .typed<decltype(call_value_gather_layers_backward)>();
  return op.call(grads, tables, ids, scales, index, table_gradients, scale_gradients);
}

}  // namespace bov::ops
