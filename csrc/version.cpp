#include "csrc/version.h"

namespace bov::ops {

bool built_with_cuda() {
#ifdef BOV_HAVE_CUDA
  return true;
#else
  return false;
#endif
}

const char* cuda_build() {
  return BOV_CUDA_BUILD;
}

const char* version() {
  return BOV_VERSION;
}

}  // namespace bov::ops
