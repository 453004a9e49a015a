#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bov::experiments {

struct CudaDevice {
  std::string name;
  int capability_major = 0;
  int capability_minor = 0;
  int64_t memory_bytes = 0;
};

/// What the NVIDIA driver says. Versions are CUDA's: 1000 * major + 10 * minor.
struct CudaDriver {
  int version = 0;  ///< newest CUDA that the driver runs; 0 without a driver
  std::vector<CudaDevice> devices;
  std::string problem;  ///< why no device can be used; empty if one can
};

/// Asks the driver itself, so that the answer does not depend on how LibTorch or bov were built.
CudaDriver query_cuda_driver(const std::string& library = "libcuda.so.1");

/// Version of the CUDA runtime in this process, 0 if there is none.
int loaded_cuda_runtime_version();

/// 13020 -> "13.2".
std::string cuda_version_text(int version);

}  // namespace bov::experiments
