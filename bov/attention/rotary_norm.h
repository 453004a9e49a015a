#pragma once

#include <torch/types.h>

#include "bov/attention/rotary.h"
#include "bov/export.h"

namespace bov {

/// scale·RMSNorm(apply_rotary(x)) over the last dimension: what makes queries and keys. x [B, T, H, D] of any floating
/// dtype -> [B, T, H, D] in x's dtype; tables of T positions in x's dtype. On the CPU (float32, float64) it is one pass in
/// each direction, elsewhere the composition of the three. Throws c10::Error for x of another shape than the tables'.
BOV_API torch::Tensor rotary_rms_norm(const torch::Tensor& x, const RotaryTables& tables, double scale);

}  // namespace bov
