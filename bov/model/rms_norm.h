#pragma once

#include <torch/types.h>

#include "bov/export.h"

namespace bov {

/// Epsilon of every RMSNorm: float32's, as torch's rms_norm has for float32 input; bf16 input uses it too.
inline constexpr double kRmsNormEpsilon = 1.1920928955078125e-07;

/// x / sqrt(mean(x²) + ε) over the last dimension, without gain: x [.., C] of any floating dtype -> [.., C] in x's dtype.
/// The mean is taken in float32 at least. Throws c10::Error for a scalar or another dtype.
BOV_API torch::Tensor rms_norm(const torch::Tensor& x);

}  // namespace bov
