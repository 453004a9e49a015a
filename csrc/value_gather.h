#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <optional>
#include <vector>

#include "csrc/export.h"
#include "csrc/token_index.h"

namespace bov::ops {

/// Value vectors of several banks for the same ids, as the target layers of one model need them:
/// `tables[l][ids] * scales[l]`, cast to `dtype`, in one pass over the results with no temporary
/// (γ_l · E_V^l[id] of arXiv 2606.02780, section 3). One launch on CUDA.
///
/// @param tables  at least one; all [R, W] of one dtype, float64, float32, bfloat16 or float16; any strides, but
///                columns that are not adjacent in memory cost a copy of the table.
/// @param ids     any shape, int64 or int32, each in [0, R).
/// @param scales  none, or one a table: a floating point number as a tensor of one element on the tables' device (a
///                learned γ); 1 if absent.
/// @param dtype   one of the tables' dtypes; the tables' own if absent, or under autocast its dtype, unless the tables
///                are float64. Autocast does not cast the tables.
/// @param index   token_index(ids, R), which the backward pass otherwise makes.
/// @return        a table's [*ids.shape, W] each, contiguous. The product is computed in float32, in float64 if
///                `tables` or `dtype` are float64, and rounded once.
///
/// Differentiable once, in `tables` (dense, in their dtype) and `scales`. Sums run over ids in sorted order, in
/// fixed-size chunks with a fixed order of combining, in the precision of the product and rounded once:
/// results are equal bit for bit from run to run and for any number of threads.
///
/// Throws c10::Error for arguments of another shape, dtype or device. An id outside the table: on the CPU
/// c10::Error naming the id, its index and R. On CUDA nothing waits for the device: the row becomes NaN,
/// nothing outside the table is read, and the next operator on that device which looks up ids and starts after the
/// kernel ran throws c10::Error naming the id.
///
/// Registered as torch.ops.bov.value_gather_layers(tables, ids, scales, index, dtype=None) for CPU, CUDA, Meta, Autograd
/// and Autocast; `index` is then a list of four tensors, or empty.
BOV_OPS_API std::vector<at::Tensor> value_gather_layers(
    at::TensorList tables,
    const at::Tensor& ids,
    at::TensorList scales = {},
    std::optional<at::ScalarType> dtype = std::nullopt,
    const std::optional<TokenIndex>& index = std::nullopt);

/// The same of one table [R, W]: [*ids.shape, W]. Throws the same.
///
/// Registered as torch.ops.bov.value_gather(table, ids, scale=None, dtype=None) in terms of value_gather_layers.
BOV_OPS_API at::Tensor value_gather(const at::Tensor& table,
                                    const at::Tensor& ids,
                                    const std::optional<at::Tensor>& scale = std::nullopt,
                                    std::optional<at::ScalarType> dtype = std::nullopt,
                                    const std::optional<TokenIndex>& index = std::nullopt);

}  // namespace bov::ops
