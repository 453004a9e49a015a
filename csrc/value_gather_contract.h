#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <functional>
#include <optional>
#include <tuple>
#include <vector>

#include "csrc/token_index.h"
#include "csrc/value_dtype.h"

/// What value_gather accepts and the frame of its forward and backward pass, said once for the CPU, CUDA and Meta
/// kernels, so that bad input gets the same error everywhere. The range of ids is a matter of values, so each device's
/// kernel checks it.
namespace bov::ops {

/// Checks the arguments as value_gather.h says, with one error for each that is wrong, and returns the results to be
/// filled, [*ids.shape, W] a table.
std::vector<at::Tensor> empty_value_gather(at::TensorList tables,
                                           const at::Tensor& ids,
                                           at::TensorList scales,
                                           at::TensorList index,
                                           std::optional<at::ScalarType> dtype);

/// The same values with adjacent columns; rows may be strided.
at::Tensor with_adjacent_columns(const at::Tensor& matrix);

/// Arguments of _value_gather_layers_backward; `grads` have the results' shape and dtype.
struct ValueGatherBackward {
  at::TensorList grads, tables;
  const at::Tensor& ids;
  at::TensorList scales, index;
  bool table_gradients, scale_gradients;

  /// Throws c10::Error unless they are as value_gather.h says.
  void check() const;
  /// The index that came with the arguments, or a new one.
  TokenIndex token_index() const;
};

/// One table's part of the backward pass. Gradients that are not asked for are undefined, others to be filled.
struct ValueGatherLayer {
  at::Tensor grad;   ///< [*ids.shape, W]
  at::Tensor table;  ///< [R, W]
  std::optional<at::Tensor> scale;
  at::Tensor table_grad;  ///< [R, W], contiguous
  at::Tensor scale_grad;  ///< as scale
};

using ValueGatherGradients = std::tuple<std::vector<at::Tensor>, std::vector<at::Tensor>>;

/// The gradients of tables and scales, filled by `fill` layer after layer; those that are not asked for are empty.
ValueGatherGradients value_gather_gradients(const ValueGatherBackward& arguments,
                                            const std::function<void(const ValueGatherLayer&)>& fill);

}  // namespace bov::ops
