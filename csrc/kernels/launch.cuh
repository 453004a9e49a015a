#pragma once

#include <cuda_runtime_api.h>

#include "csrc/kernels/launch.h"

namespace bov::kernels {

/// What kernels want of a thread. The bodies are for the device alone.
struct DeviceThread {
#ifdef __CUDA_ARCH__
  __device__ int index() const {
    return threadIdx.x;
  }
  __device__ int count() const {
    return blockDim.x;
  }
  __device__ int64_t block_x() const {
    return blockIdx.x;
  }
  __device__ int64_t block_y() const {
    return blockIdx.y;
  }
  __device__ int64_t block_z() const {
    return blockIdx.z;
  }
  __device__ void sync() const {
    __syncthreads();
  }
  template <typename T>
  __device__ T shuffle_xor(T value, int mask) const {
    return __shfl_xor_sync(0xffffffffu, value, mask);
  }
  __device__ void* shared() const {
    extern __shared__ double memory[];
    return memory;
  }
#endif
};

template <typename Kernel>
__global__ void run_kernel(const __grid_constant__ Kernel kernel) {
#ifdef __CUDA_ARCH__
  kernel(DeviceThread());
#endif
}

template <typename Kernel>
cudaError_t launch(const Kernel& kernel, cudaStream_t stream) {
  const LaunchSize size = kernel.size();
  const dim3 blocks(static_cast<unsigned>(size.x), static_cast<unsigned>(size.y),
                    static_cast<unsigned>(size.z));
  run_kernel<<<blocks, size.threads, size.shared_bytes, stream>>>(kernel);
  return cudaGetLastError();
}

}  // namespace bov::kernels
