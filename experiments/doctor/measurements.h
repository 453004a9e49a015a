#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>

namespace bov::experiments {

/// What this machine reaches with the threads that torch uses now: the best of repetitions that last a third of a second
/// in all, so that other work on the machine disturbs it little.

/// Floating-point operations a second of a product of two square matrices of `size` rows.
double measure_matmul_rate(at::ScalarType type, int64_t size);

/// Bytes a second, read and written together, of a copy between two blocks of memory of 64 MiB each.
double measure_copy_rate();

}  // namespace bov::experiments
