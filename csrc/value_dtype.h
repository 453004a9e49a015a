#pragma once

#include <c10/core/ScalarType.h>

/// Dtypes of the operators' floating point arguments.
namespace bov::ops {

inline bool is_value_dtype(at::ScalarType dtype) {
  return dtype == at::kDouble || dtype == at::kFloat || dtype == at::kBFloat16 || dtype == at::kHalf;
}

/// Precision of arithmetic between value dtypes: float64 if one of them is, else float32.
inline at::ScalarType compute_type(at::ScalarType a, at::ScalarType b = at::kFloat) {
  return a == at::kDouble || b == at::kDouble ? at::kDouble : at::kFloat;
}

}  // namespace bov::ops
