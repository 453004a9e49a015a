#pragma once

#include <functional>

#include "bov/io/safetensors.h"

namespace bov {

/// A tensor that is made while it is written, a few megabytes at a time, and so never stands in memory as a whole.
struct BOV_API TensorRows {
  at::ScalarType dtype = at::kFloat;  ///< one that safetensors has
  std::vector<int64_t> shape;         ///< at least one dimension
  /// Rows [begin, end) of the first dimension, in `dtype`, on any device. Called in ascending order, without gaps.
  std::function<at::Tensor(int64_t begin, int64_t end)> rows;
};
/// By name.
using TensorRowsMap = std::map<std::string, TensorRows>;

/// As save_safetensors without `rows`, whose tensors stand in the file as if they had been whole. Throws c10::Error naming
/// one that `tensors` holds too, or whose rows do not have its shape and dtype.
BOV_API void save_safetensors(const std::filesystem::path& path,
                              const TensorMap& tensors,
                              const StringMap& metadata,
                              const TensorRowsMap& rows);

}  // namespace bov
