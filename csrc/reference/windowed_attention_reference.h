#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "csrc/export.h"

namespace bov::ops::reference {

/// windowed_attention (csrc/windowed_attention.h) as one masked softmax over all T² pairs, in float32 or float64 and
/// rounded once; gradients of any order by autograd. The oracle of the tests.
BOV_OPS_API at::Tensor windowed_attention(const at::Tensor& q,
                                          const at::Tensor& k,
                                          const at::Tensor& v,
                                          int64_t left);

}  // namespace bov::ops::reference
