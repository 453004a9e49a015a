#include "csrc/cuda/id_report.h"

#include <c10/cuda/CUDAException.h>
#include <c10/util/Exception.h>
#include <cuda_runtime_api.h>

#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace bov::ops {
namespace {

std::vector<kernels::IdReport*> allocate_reports() {
  int devices = 0;
  C10_CUDA_CHECK(cudaGetDeviceCount(&devices));
  std::vector<kernels::IdReport*> reports;
  for (int i = 0; i < devices; ++i) {
    void* memory = nullptr;
    C10_CUDA_CHECK(
        cudaHostAlloc(&memory, sizeof(kernels::IdReport), cudaHostAllocPortable | cudaHostAllocMapped));
    reports.push_back(new (memory) kernels::IdReport{});
  }
  return reports;
}

}  // namespace

kernels::IdReport* id_report(c10::Device device) {
  static const std::vector<kernels::IdReport*> reports = allocate_reports();
  static std::mutex mutex;
  kernels::IdReport* report = reports.at(device.index());
  const std::lock_guard lock(mutex);
  // The device writes behind the compiler's back.
  volatile kernels::IdReport* shared = report;
  if (std::exchange(shared->found, 0) != 0) {
    TORCH_CHECK(false, "bov: an earlier operator on ", device, " found id ", static_cast<int64_t>(shared->id),
                " outside its table of ", static_cast<int64_t>(shared->rows),
                " rows; its values were set to NaN or left out");
  }
  return report;
}

}  // namespace bov::ops
