// Stands in for libcuda.so.1: the functions that the doctor calls, with a version and devices that the test chooses.
#include <cstddef>
#include <cstdlib>
#include <cstring>

#define FAKE_DRIVER_API extern "C" __attribute__((visibility("default")))

namespace {

int setting(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? 0 : std::atoi(value);
}

}  // namespace

FAKE_DRIVER_API int cuDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}

FAKE_DRIVER_API int cuInit(unsigned) {
  return setting("FAKE_CUDA_INIT_ERROR");
}

FAKE_DRIVER_API int cuDeviceGetCount(int* count) {
  *count = setting("FAKE_CUDA_DEVICES");
  return 0;
}

FAKE_DRIVER_API int cuDeviceGet(int* device, int index) {
  *device = 100 + index;
  return 0;
}

FAKE_DRIVER_API int cuDeviceGetName(char* name, int size, int device) {
  std::strncpy(name, device == 100 ? "First GPU" : "Second GPU", static_cast<size_t>(size));
  return 0;
}

FAKE_DRIVER_API int cuDeviceTotalMem_v2(size_t* bytes, int device) {
  *bytes = size_t{80'000'000'000} + static_cast<size_t>(device);
  return 0;
}

// CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR of cuda.h.
FAKE_DRIVER_API int cuDeviceGetAttribute(int* value, int attribute, int) {
  if (attribute != 75 && attribute != 76) return 1;
  *value = attribute == 75 ? 9 : 0;
  return 0;
}
