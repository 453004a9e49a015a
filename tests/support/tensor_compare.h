#pragma once

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace bov::testing {

/// ||a - b|| / ||b|| over all entries, in float64. Zero when both are zero (or empty), infinity when only b
/// is; NaN anywhere gives NaN, so that `error < bound` is false. Throws when the shapes differ.
inline double relative_error(const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK(a.sizes() == b.sizes(), "relative_error: shapes differ: ", a.sizes(), " and ", b.sizes());
  const at::Tensor expected = b.detach().to(at::kCPU, at::kDouble);
  const double difference = (a.detach().to(at::kCPU, at::kDouble) - expected).norm().item<double>();
  const double size = expected.norm().item<double>();
  if (size == 0.0 && difference != 0.0) {
    return std::isnan(difference) ? difference : std::numeric_limits<double>::infinity();
  }
  return size == 0.0 ? 0.0 : difference / size;
}

/// max |a - b| over all entries, in float64; 0 for empty tensors, NaN when any entry is NaN. Throws when the
/// shapes differ.
inline double max_abs_error(const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK(a.sizes() == b.sizes(), "max_abs_error: shapes differ: ", a.sizes(), " and ", b.sizes());
  if (a.numel() == 0) {
    return 0.0;
  }
  return (a.detach().to(at::kCPU, at::kDouble) - b.detach().to(at::kCPU, at::kDouble))
      .abs()
      .max()
      .item<double>();
}

/// True when dtype, shape and every bit agree: -0 differs from 0, and a NaN equals itself.
inline bool bitwise_equal(const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes()) {
    return false;
  }
  const at::Tensor left = a.detach().cpu().contiguous();
  const at::Tensor right = b.detach().cpu().contiguous();
  return left.numel() == 0 || std::memcmp(left.const_data_ptr(), right.const_data_ptr(), left.nbytes()) == 0;
}

/// Largest relative error of rounding one real number to `dtype`: half the distance from 1 to the next
/// number.
inline double unit_roundoff(at::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble:
      return 0x1p-53;
    case at::kFloat:
      return 0x1p-24;
    case at::kHalf:
      return 0x1p-11;
    case at::kBFloat16:
      return 0x1p-8;
    default:
      TORCH_CHECK(false, "unit_roundoff: no floating point dtype: ", dtype);
  }
}

}  // namespace bov::testing
