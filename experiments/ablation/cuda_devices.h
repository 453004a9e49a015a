#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bov::experiments {

/// What CUDA_VISIBLE_DEVICES must be for a process that shall see the GPU with each of the indices `wanted` alone, as
/// this process counts its GPUs. Throws std::invalid_argument naming one that is no index of a GPU that LibTorch sees,
/// or is given twice.
std::vector<std::string> visible_cuda_devices(const std::vector<std::string>& wanted);

/// The same for `seen` GPUs and this process's own CUDA_VISIBLE_DEVICES (null if it is not set), which says what the
/// indices stand for.
std::vector<std::string> visible_cuda_devices(const std::vector<std::string>& wanted,
                                              int64_t seen,
                                              const char* visible);

}  // namespace bov::experiments
