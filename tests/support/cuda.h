#pragma once

#include <ATen/Context.h>

#include "csrc/version.h"
#include "support/skip.h"

/// For the first line of a test case that runs CUDA kernels.
#define BOV_NEEDS_CUDA()                          \
  do {                                            \
    if (!bov::ops::built_with_cuda()) {           \
      BOV_SKIP("this build has no CUDA kernels"); \
    }                                             \
    if (!at::hasCUDA()) {                         \
      BOV_SKIP("no CUDA device");                 \
    }                                             \
  } while (false)
