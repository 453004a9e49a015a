#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "csrc/export.h"

namespace bov::ops {

/// Causal softmax attention in which query i sees keys [i - left, i]; scale 1/sqrt(D).
///
/// @param q     [B, T, H, D] float64, float32, bfloat16 or float16; any strides.
/// @param k, v  [B, T, Hkv, D], dtype and device of q; H a multiple of Hkv, head h of q reads head h / (H / Hkv).
/// @param left  how far a query looks back, 0 or more; T - 1 and more is full causal attention.
/// @return      [B, T, H, D], contiguous.
///
/// Work grows with T·left, not T², and so does memory on CUDA; on the CPU memory grows with T alone.
///
/// On the CPU one kernel makes scores, softmax and weighted sums block by block in float32 (float64 for float64) and
/// saves one number a query for the backward pass. Results are equal bit for bit for any number of threads. The
/// backward pass has one task for each pair of sequence and key head. Differentiable once.
///
/// On CUDA it is FlashAttention with a window for bfloat16 and float16 with D a multiple of 8 up to 192 (compute
/// capability 8.0 or later), and LibTorch's attention over blocks of queries and slices of keys elsewhere.
///
/// Throws c10::Error for arguments of another shape, dtype or device. Under autocast, q, k and v are cast to its dtype.
/// Registered as torch.ops.bov.windowed_attention.
BOV_OPS_API at::Tensor windowed_attention(const at::Tensor& q,
                                          const at::Tensor& k,
                                          const at::Tensor& v,
                                          int64_t left);

}  // namespace bov::ops
