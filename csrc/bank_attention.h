#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "csrc/export.h"

namespace bov::ops {

/// How bank_attention sums value rows; the results differ by rounding alone.
enum class BankAlgorithm {
  automatic,  ///< by measured thresholds of the number of slots in view and of how often their ids repeat
  indirect,   ///< one row read for each slot in view: O(T·D)
  aggregated  ///< probabilities of equal ids are summed first, each distinct row is read once: O(T + U·D)
};

/// Decode attention whose values are rows of a bank: softmax(q·Kᵀ/√D) · γ·E_V[ids] for the last Q positions
/// of each sequence of a batch (arXiv 2606.02780, section 3, with the history's V never built). Rows are read
/// in place, so that the table may be a memory-mapped file; no pass over the whole table is made.
///
/// Query i of sequence b sees slot j iff lengths[b] - Q + i - left <= j <= lengths[b] - Q + i, and j >= 0.
///
/// @param q          [B, Q, H, D] float64, float32, bfloat16 or float16, rotated and normalised.
/// @param keys       [B, S, Hkv, D] K cache, H a multiple of Hkv; float32, bfloat16 or float16, or float64 if
///                   q is float64. Any strides with adjacent last dimension. Slots at and beyond lengths[b]
///                   are never read.
/// @param table      [R, Hkv·D] of the dtypes that keys may have, or int8 with `row_scale`; adjacent columns.
/// @param ids        [B, S] int64, int32, int16, uint16 or uint8: token id of each slot, in [0, R).
/// @param lengths    [B] int64: slots of each sequence that are filled, the Q new ones included; from Q to S.
///                   0 marks an idle row of the batch, whose result is 0.
/// @param left       how many earlier slots a query sees, >= 0; S or more for all of them.
/// @param scale      γ, one floating point number as a tensor of one element; 1 if absent.
/// @param row_scale  [R] float32, contiguous, with an int8 table alone, which stands for row_scale[r]·table[r].
/// @param algorithm  how value rows are summed.
/// @return           [B, Q, H, D] in q's dtype, contiguous. Arithmetic is float32, float64 if q is float64.
///
/// Results are equal bit for bit from run to run and for any number of threads. Not differentiable: throws if
/// an argument requires a gradient while gradients are recorded. Under autocast q is cast, nothing else.
///
/// Throws c10::Error for arguments of another shape, dtype, device or layout. Lengths and ids are values: on
/// the CPU a length outside {0} ∪ [Q, S] or an id in view outside [0, R) throws, naming it and its index. On
/// CUDA nothing waits for the device: the result of such a sequence is NaN, nothing outside the tensors is
/// read, and an id is reported as value_gather does. There `automatic` is `indirect`, `aggregated` sorts the
/// ids at each call, and B is at most 65,535.
///
/// Registered as torch.ops.bov.bank_attention for CPU, CUDA, Meta, Autograd and Autocast.
BOV_OPS_API at::Tensor bank_attention(const at::Tensor& q,
                                      const at::Tensor& keys,
                                      const at::Tensor& table,
                                      const at::Tensor& ids,
                                      const at::Tensor& lengths,
                                      int64_t left,
                                      const std::optional<at::Tensor>& scale = std::nullopt,
                                      const std::optional<at::Tensor>& row_scale = std::nullopt,
                                      BankAlgorithm algorithm = BankAlgorithm::automatic);

}  // namespace bov::ops
