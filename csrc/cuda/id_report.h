#pragma once

#include <c10/core/Device.h>

#include "csrc/kernels/id_report.h"

namespace bov::ops {

/// Pinned host memory of `device` in which a kernel leaves an id outside its table; made at the first call
/// and kept until the process ends, so that a running kernel never loses it. Throws c10::Error if a kernel
/// that has finished left one there, naming the id and the rows of its table, and clears it.
kernels::IdReport* id_report(c10::Device device);

}  // namespace bov::ops
