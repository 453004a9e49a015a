#pragma once

#include <torch/types.h>

#include "bov/export.h"

namespace bov {

/// cos and sin of position·base^(-2j/D), each [T, 1, D/2] in compute dtype: they broadcast over [B, T, H, D/2].
struct BOV_API RotaryTables {
  torch::Tensor cos;  ///< [T, 1, D/2]
  torch::Tensor sin;  ///< [T, 1, D/2]
};

/// Tables of `dtype` for the given positions [T] (any integral dtype, any size of position), on their device. Angles are
/// computed in float32 (float64 for a float64 `dtype`), then cast. Throws c10::Error for positions of another rank or an
/// odd head_dim.
BOV_API RotaryTables rotary_tables(const torch::Tensor& positions,
                                   int64_t head_dim,
                                   double base,
                                   torch::Dtype dtype);

/// Rotates x [B, T, H, D] by -θ: the first half of D pairs with the second, y1 = x1·cos + x2·sin, y2 = x2·cos - x1·sin.
/// Any floating dtype; -> [B, T, H, D]. Throws c10::Error for x of another shape than the tables'.
BOV_API torch::Tensor apply_rotary(const torch::Tensor& x, const RotaryTables& tables);

}  // namespace bov
