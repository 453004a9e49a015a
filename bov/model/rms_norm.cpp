#include "bov/model/rms_norm.h"

#include <ATen/ops/rms_norm.h>

namespace bov {

torch::Tensor rms_norm(const torch::Tensor& x) { return at::rms_norm(x, {x.size(-1)}, {}, kRmsNormEpsilon); }

}  // namespace bov
