#pragma once

namespace bov::ops {

/// True when the CUDA kernels are part of this library.
__attribute__((visibility("default"))) bool built_with_cuda();

/// Version of bov, "major.minor.patch". Calling it also keeps the library linked where operators are reached by name.
__attribute__((visibility("default"))) const char* version();

}  // namespace bov::ops
