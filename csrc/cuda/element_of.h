#pragma once

#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>

#include "csrc/kernels/element.h"

namespace bov::ops {

/// What the kernels call a dtype of values.
inline kernels::Element element_of(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
      return kernels::Element::float64;
    case at::kFloat:
      return kernels::Element::float32;
    case at::kBFloat16:
      return kernels::Element::bfloat16;
    case at::kHalf:
      return kernels::Element::float16;
    default:
      TORCH_CHECK(false, "no CUDA kernel for ", type);
  }
}

}  // namespace bov::ops
