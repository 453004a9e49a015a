#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <optional>

#include "csrc/export.h"

namespace bov::ops {

/// Value vectors of a bank: `table[ids] * scale`, cast to `dtype`, in one pass over the result with no
/// temporary (γ_l · E_V^l[id] of arXiv 2606.02780, section 3).
///
/// @param table  [R, W] float64, float32, bfloat16 or float16; any strides, but columns that are not adjacent
/// in
///               memory cost a copy of the table.
/// @param ids    any shape, int64 or int32, each in [0, R).
/// @param scale  one floating point number as a tensor of one element on the table's device (a learned γ); 1
/// if absent.
/// @param dtype  one of the table's dtypes; the table's own if absent.
/// @return       [*ids.shape, W], contiguous. The product is computed in float32, in float64 if `table` or
/// `dtype` is
///               float64, and rounded once.
///
/// Differentiable once, in `table` (dense, in its dtype) and `scale`. Sums run over ids in sorted order, in
/// fixed-size chunks with a fixed order of combining, in the precision of the product and rounded once:
/// results are equal bit for bit from run to run and for any number of threads.
///
/// Throws c10::Error for arguments of another shape, dtype or device. An id outside the table: on the CPU
/// c10::Error naming the id, its index and R. On CUDA nothing waits for the device: the row becomes NaN,
/// nothing outside the table is read, and the next value_gather on that device which starts after the kernel
/// ran throws c10::Error naming the id.
///
/// Registered as torch.ops.bov.value_gather for CPU, CUDA, Meta and Autograd.
BOV_OPS_API at::Tensor value_gather(const at::Tensor& table,
                                    const at::Tensor& ids,
                                    const std::optional<at::Tensor>& scale = std::nullopt,
                                    std::optional<at::ScalarType> dtype = std::nullopt);

}  // namespace bov::ops
