#pragma once

#include "bov/attention/rotary.h"

namespace bov {

/// Throws c10::Error naming `what` and the shapes unless x is [B, T, H, D] and the tables are of T positions and width D.
void check_rotary_shapes(const char* what, const torch::Tensor& x, const RotaryTables& tables);

}  // namespace bov
