#pragma once

#include <ATen/core/Tensor.h>

#include "csrc/export.h"

namespace bov::ops {

/// The ids of one step in sorted order, for operators that treat equal ids together. Built once and shared by all
/// layers and heads of the step. All int32 and on the device of the ids; N ids, S = min(N, rows).
struct TokenIndex {
  at::Tensor positions;  ///< [N] flat positions of the ids, by ascending id, equal ids by ascending position
  at::Tensor offsets;    ///< [S + 1] where in `positions` each distinct id begins; N from entry `count` on
  at::Tensor distinct;   ///< [S] the distinct ids, ascending; `rows` from entry `count` on
  at::Tensor count;      ///< [1] how many distinct ids there are
};

/// Sorts `ids` (any shape, int64 or int32, fewer than 2^31 - 1), each in [0, rows), rows below 2^31 - 1, by radix.
/// The sizes of the results do not depend on the values, so nothing waits for the device.
///
/// Throws c10::Error for arguments of another dtype or size. An id outside [0, rows): on the CPU c10::Error naming
/// it, its index and `rows`. On CUDA it is left out of the index (the entries that stand for "none" are then the number
/// of ids inside instead of N) and reported as by value_gather.
///
/// Registered as torch.ops.bov.token_index for CPU, CUDA and Meta; returns the four in the order above.
BOV_OPS_API TokenIndex token_index(const at::Tensor& ids, int64_t rows);

}  // namespace bov::ops
