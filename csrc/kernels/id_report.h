#pragma once

#include "csrc/kernels/host_device.h"

namespace bov::kernels {

/// Where a kernel leaves an id that it found outside the table: memory that the host reads without waiting.
/// The words are written by racing threads, and any of their ids will do.
struct IdReport {
  int64_t id;
  int64_t rows;
  int64_t found;  ///< 0, or 1 once the others are written
};

BOV_HOST_DEVICE void report_id(IdReport* report, int64_t id, int64_t rows) {
  report->id = id;
  report->rows = rows;
#ifdef __CUDA_ARCH__
  __threadfence_system();  // the host must not see `found` before the rest
#endif
  report->found = 1;
}

BOV_HOST_DEVICE bool is_inside(int64_t id, int64_t rows) {
  return id >= 0 && id < rows;
}

}  // namespace bov::kernels
