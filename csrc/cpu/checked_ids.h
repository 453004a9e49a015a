#pragma once

#include <ATen/core/Tensor.h>

namespace bov::ops::cpu {

/// Ids as a flat int64 list. Throws c10::Error, which `op` begins, for the first one outside [0, rows).
at::Tensor checked_ids(const char* op, const at::Tensor& ids, int64_t rows);

}  // namespace bov::ops::cpu
