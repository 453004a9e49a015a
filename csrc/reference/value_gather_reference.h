#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <optional>

#include "csrc/export.h"

namespace bov::ops::reference {

/// value_gather (csrc/value_gather.h) as a composition of LibTorch operators: the same result bit for bit,
/// gradients of any order by autograd, four passes over the rows instead of one. The oracle of the tests.
BOV_OPS_API at::Tensor value_gather(const at::Tensor& table,
                                    const at::Tensor& ids,
                                    const std::optional<at::Tensor>& scale = std::nullopt,
                                    std::optional<at::ScalarType> dtype = std::nullopt);

}  // namespace bov::ops::reference
