#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "csrc/export.h"

namespace bov::ops::reference {

/// bank_attention (csrc/bank_attention.h) as a composition of LibTorch operators, one sequence at a time: the
/// value vectors of the whole history are gathered, scaled and attended to with a masked softmax, in float32
/// or float64. The oracle of the tests.
BOV_OPS_API at::Tensor bank_attention(const at::Tensor& q,
                                      const at::Tensor& keys,
                                      const at::Tensor& table,
                                      const at::Tensor& ids,
                                      const at::Tensor& lengths,
                                      int64_t left,
                                      const std::optional<at::Tensor>& scale = std::nullopt,
                                      const std::optional<at::Tensor>& row_scale = std::nullopt);

}  // namespace bov::ops::reference
