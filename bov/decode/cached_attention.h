#pragma once

#include <torch/types.h>

#include <vector>

#include "bov/export.h"

namespace bov {

/// Below this many queries a sequence, keys and values are read once for each; from here on, matrices are multiplied.
inline constexpr int64_t kFewQueries = 16;

/// Softmax attention of the newest Q positions of each sequence over cached keys and values; scale 1/sqrt(D).
///
/// q [B, Q, H, D]; keys and values [B, S, Hkv, D], H a multiple of Hkv. Query i of sequence b sees slot j iff
/// lengths[b] - Q + i - left <= j <= lengths[b] - Q + i, with Q <= lengths[b] <= S. -> [B, Q, H, D]. All of one dtype, the
/// result's: float64, float32, bfloat16 or float16. Throws c10::Error for other shapes, dtypes or lengths.
BOV_API torch::Tensor cached_attention(const torch::Tensor& q,
                                       const torch::Tensor& keys,
                                       const torch::Tensor& values,
                                       const std::vector<int64_t>& lengths,
                                       int64_t left);

}  // namespace bov
