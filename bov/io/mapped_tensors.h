#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "bov/io/safetensors.h"

namespace bov {

/// Tensors of a safetensors file without reading it: their memory is the mapped file, so that a page is read when it is
/// touched and may be dropped again. They keep the mapping alive, and must not be written to.
class BOV_API MappedTensors {
 public:
  /// Throws std::runtime_error as SafetensorsReader, and if the file cannot be mapped.
  explicit MappedTensors(const std::filesystem::path& path);

  /// Throws std::runtime_error naming the file and `name` if there is no such tensor, or if it is a bool, or does not lie
  /// at a multiple of its element size.
  at::Tensor tensor(const std::string& name) const;

 private:
  std::filesystem::path path_;
  std::map<std::string, SafetensorsInfo> tensors_;
  std::shared_ptr<void> mapping_;
};

/// Asks the system to read the memory of `tensor`, contiguous and mapped from a file, soon. Advice: errors are ignored. Never throws.
BOV_API void will_need(const at::Tensor& tensor);

}  // namespace bov
