#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include "csrc/kernels/element.h"

namespace bov::kernels {

/// Calls `body` with a null pointer of the C++ type.
template <typename Body>
cudaError_t with_element(Element type, Body body) {
  switch (type) {
    case Element::float64:
      return body(static_cast<double*>(nullptr));
    case Element::float32:
      return body(static_cast<float*>(nullptr));
    case Element::bfloat16:
      return body(static_cast<__nv_bfloat16*>(nullptr));
    case Element::float16:
      return body(static_cast<__half*>(nullptr));
  }
  return cudaErrorInvalidValue;
}

}  // namespace bov::kernels
