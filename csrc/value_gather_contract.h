#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>
#include <c10/core/SymInt.h>
#include <c10/util/Exception.h>

#include <optional>
#include <tuple>

/// What value_gather accepts, said once and called by its CPU, CUDA and Meta kernels, so that bad input gets
/// the same error everywhere. The range of ids is a matter of values, so each device's kernel checks it.
namespace bov::ops {

/// Compute precision of value_gather: float64 if either side is, else float32.
inline at::ScalarType value_gather_compute_type(at::ScalarType table, at::ScalarType out) {
  return table == at::kDouble || out == at::kDouble ? at::kDouble : at::kFloat;
}

inline bool is_value_dtype(at::ScalarType dtype) {
  return dtype == at::kDouble || dtype == at::kFloat || dtype == at::kBFloat16 || dtype == at::kHalf;
}

/// Throws c10::Error unless the arguments are as value_gather.h says; returns the dtype of the result.
inline at::ScalarType check_value_gather(const at::Tensor& table,
                                         const at::Tensor& ids,
                                         const std::optional<at::Tensor>& scale,
                                         std::optional<at::ScalarType> dtype) {
  TORCH_CHECK(table.dim() == 2, "value_gather: table must be [rows, width], got ", table.sym_sizes());
  TORCH_CHECK(is_value_dtype(table.scalar_type()),
              "value_gather: table must be float64, float32, bfloat16 or float16, got ", table.scalar_type());
  TORCH_CHECK(ids.scalar_type() == at::kLong || ids.scalar_type() == at::kInt,
              "value_gather: ids must be int64 or int32, got ", ids.scalar_type());
  TORCH_CHECK(ids.device() == table.device(), "value_gather: ids are on ", ids.device(), " but table is on ",
              table.device());
  if (scale.has_value()) {
    TORCH_CHECK(scale->sym_numel() == 1, "value_gather: scale must have one element, got ",
                scale->sym_sizes());
    TORCH_CHECK(is_value_dtype(scale->scalar_type()),
                "value_gather: scale must be float64, float32, bfloat16 or float16, got ",
                scale->scalar_type());
    TORCH_CHECK(scale->device() == table.device(), "value_gather: scale is on ", scale->device(),
                " but table is on ", table.device());
  }
  const at::ScalarType out = dtype.value_or(table.scalar_type());
  TORCH_CHECK(is_value_dtype(out), "value_gather: dtype must be float64, float32, bfloat16 or float16, got ",
              out);
  return out;
}

/// Shape of the result: [*ids.shape, W].
inline c10::SymDimVector value_gather_shape(const at::Tensor& table, const at::Tensor& ids) {
  c10::SymDimVector shape(ids.sym_sizes().begin(), ids.sym_sizes().end());
  shape.push_back(table.sym_size(1));
  return shape;
}

/// The same for the backward op, whose `grad` has the result's shape and dtype.
inline void check_value_gather_backward(const at::Tensor& grad,
                                        const at::Tensor& table,
                                        const at::Tensor& ids,
                                        const std::optional<at::Tensor>& scale,
                                        bool scale_gradient) {
  check_value_gather(table, ids, scale, grad.scalar_type());
  TORCH_CHECK(!scale_gradient || scale.has_value(),
              "_value_gather_backward: a gradient of scale needs a scale");
  TORCH_CHECK(grad.device() == table.device(), "_value_gather_backward: grad is on ", grad.device(),
              " but table is on ", table.device());
  const c10::SymDimVector shape = value_gather_shape(table, ids);
  TORCH_CHECK(grad.sym_sizes() == c10::SymIntArrayRef(shape), "_value_gather_backward: grad must be ",
              c10::SymIntArrayRef(shape), ", got ", grad.sym_sizes());
}

}  // namespace bov::ops
