#pragma once

#include <c10/core/ScalarType.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Exception.h>
#include <c10/util/Half.h>

namespace bov::ops::cpu {

/// Calls `body` with a zero of the C++ type of `type`, one of the four dtypes that values may have.
template <typename Body>
void dispatch_value_type(at::ScalarType type, const Body& body) {
  switch (type) {
    case at::kDouble:
      return body(double{});
    case at::kFloat:
      return body(float{});
    case at::kBFloat16:
      return body(c10::BFloat16{});
    case at::kHalf:
      return body(c10::Half{});
    default:
      TORCH_CHECK(false, "no CPU kernel for ", type);
  }
}

}  // namespace bov::ops::cpu
