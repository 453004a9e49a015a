#pragma once

#include "csrc/export.h"

namespace bov::ops {

/// True when the CUDA kernels are part of this library.
BOV_OPS_API bool built_with_cuda();

/// The compiler and the targets of the CUDA kernels, for instance "nvcc 13.0.88 for 80-real,90" (a number without suffix
/// means machine code and PTX, as in CMAKE_CUDA_ARCHITECTURES); empty without CUDA kernels.
BOV_OPS_API const char* cuda_build();

/// Version of bov, "major.minor.patch". Calling it also keeps the library linked where operators are reached
/// by name.
BOV_OPS_API const char* version();

}  // namespace bov::ops
