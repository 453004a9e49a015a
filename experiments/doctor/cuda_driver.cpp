#include "experiments/doctor/cuda_driver.h"

#include <dlfcn.h>

#include <array>
#include <cstddef>

namespace bov::experiments {
namespace {

// The part of cuda.h that is used here: the driver's interface is stable, and the header comes with a toolkit only.
constexpr int kCapabilityMajor = 75;
constexpr int kCapabilityMinor = 76;

/// A function of the driver. All return 0 or an error number.
template <typename... Arguments>
class DriverFunction {
 public:
  DriverFunction(void* library, const char* name)
      : name_(name), function_(reinterpret_cast<int (*)(Arguments...)>(dlsym(library, name))) {}

  /// False, with the reason in `problem`, if the call failed.
  bool operator()(std::string& problem, Arguments... arguments) const {
    if (function_ == nullptr) {
      problem = std::string("the driver has no ") + name_;
      return false;
    }
    const int error = function_(arguments...);
    if (error != 0) problem = std::string(name_) + " failed with CUDA error " + std::to_string(error);
    return error == 0;
  }

 private:
  const char* name_;
  int (*function_)(Arguments...);
};

bool query_device(void* library, int index, CudaDevice& device, std::string& problem) {
  const DriverFunction<int*, int> get(library, "cuDeviceGet");
  const DriverFunction<char*, int, int> get_name(library, "cuDeviceGetName");
  const DriverFunction<size_t*, int> total_memory(library, "cuDeviceTotalMem_v2");
  const DriverFunction<int*, int, int> attribute(library, "cuDeviceGetAttribute");
  int handle = 0;
  std::array<char, 256> name{};
  size_t bytes = 0;
  if (!get(problem, &handle, index) ||
      !get_name(problem, name.data(), static_cast<int>(name.size()), handle) ||
      !total_memory(problem, &bytes, handle) ||
      !attribute(problem, &device.capability_major, kCapabilityMajor, handle) ||
      !attribute(problem, &device.capability_minor, kCapabilityMinor, handle)) {
    return false;
  }
  device.name = name.data();
  device.memory_bytes = static_cast<int64_t>(bytes);
  return true;
}

}  // namespace

CudaDriver query_cuda_driver(const std::string& library_name) {
  CudaDriver driver;
  void* library = dlopen(library_name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    driver.problem = "no NVIDIA driver: " + library_name + " was not found";
    return driver;
  }
  // Never closed: LibTorch may use the same driver.
  DriverFunction<int*>(library, "cuDriverGetVersion")(driver.problem, &driver.version);
  int count = 0;
  if (!DriverFunction<unsigned>(library, "cuInit")(driver.problem, 0U) ||
      !DriverFunction<int*>(library, "cuDeviceGetCount")(driver.problem, &count)) {
    return driver;
  }
  for (int index = 0; index < count; ++index) {
    CudaDevice device;
    if (query_device(library, index, device, driver.problem)) driver.devices.push_back(device);
  }
  if (count == 0) driver.problem = "the driver sees no device";
  return driver;
}

int loaded_cuda_runtime_version() {
  int version = 0;
  std::string none;
  DriverFunction<int*>(RTLD_DEFAULT, "cudaRuntimeGetVersion")(none, &version);
  return version;
}

std::string cuda_version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

}  // namespace bov::experiments
