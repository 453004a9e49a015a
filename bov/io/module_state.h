#pragma once

#include <torch/nn/module.h>

#include "bov/io/safetensors.h"

namespace bov {

/// Every parameter of `module` by its dotted name: detached, sharing memory with the module. Buffers are left out,
/// because bov's modules derive theirs from their options. Never throws.
BOV_API TensorMap module_state(const torch::nn::Module& module);

/// Copies `tensors` into the parameters of the same names. Nothing is copied unless everything fits: throws c10::Error
/// listing the parameters that `tensors` lacks, the names that `module` does not have, and each wrong shape or (unless
/// `convert_dtype`) dtype. Devices may differ.
BOV_API void load_parameters(torch::nn::Module& module, const TensorMap& tensors, bool convert_dtype = false);

}  // namespace bov
