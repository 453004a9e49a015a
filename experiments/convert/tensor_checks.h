#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>

#include "bov/io/safetensors.h"

/// What a conversion asks of the tensors in a file or checkpoint `file` before it writes anything.
namespace bov::experiments {

/// Throws std::runtime_error naming the file, the tensor and both shapes unless `found` has the `expected` one, which is
/// that of the run's config.
void check_shape(const std::filesystem::path& file,
                 const std::string& name,
                 const at::Tensor& found,
                 at::IntArrayRef expected);

/// Throws std::runtime_error naming the file and the tensor if it holds a NaN or an infinity, with how many there are and
/// the indices of the first.
void check_finite(const std::filesystem::path& file, const std::string& name, const at::Tensor& tensor);

/// The same for each of `tensors`.
void check_finite(const std::filesystem::path& file, const TensorMap& tensors);

}  // namespace bov::experiments
