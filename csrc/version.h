#pragma once

#include "csrc/export.h"

namespace bov::ops {

/// True when the CUDA kernels are part of this library.
BOV_OPS_API bool built_with_cuda();

/// Version of bov, "major.minor.patch". Calling it also keeps the library linked where operators are reached
/// by name.
BOV_OPS_API const char* version();

}  // namespace bov::ops
