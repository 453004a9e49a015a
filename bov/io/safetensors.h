#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "bov/export.h"

/// Files of named tensors in the safetensors format: an 8-byte little-endian header size, a JSON header, then
/// the tensors' bytes without a hole. Element types: F64 F32 F16 BF16 F8_E4M3 F8_E5M2 C64 I64 I32 I16 I8 U64
/// U32 U16 U8 BOOL.
namespace bov {

/// Tensors by name.
using TensorMap = std::map<std::string, at::Tensor>;
/// Free text by name.
using StringMap = std::map<std::string, std::string>;

/// What a file says of one tensor. Its bytes are [begin, end) of the file.
struct BOV_API SafetensorsInfo {
  at::ScalarType dtype = at::kFloat;  ///< one of the element types above
  std::vector<int64_t> shape;         ///< empty for a scalar
  uint64_t begin = 0;                 ///< first byte
  uint64_t end = 0;                   ///< behind the last byte
};

/// An open file: the header is read and checked at once, each tensor when it is asked for. The file may be
/// replaced or deleted meanwhile; the reader keeps the version that it opened.
class BOV_API SafetensorsReader {
 public:
  /// Throws std::runtime_error naming the file and what is wrong: unreadable, truncated, a header above 100
  /// MB, no JSON, a name given twice, an unknown dtype, a size that is not shape times element size, bytes
  /// that overlap or that no tensor owns.
  explicit SafetensorsReader(std::filesystem::path path);
  ~SafetensorsReader();
  SafetensorsReader(const SafetensorsReader&) = delete;
  SafetensorsReader& operator=(const SafetensorsReader&) = delete;

  /// Every tensor by name, in alphabetical order.
  const std::map<std::string, SafetensorsInfo>& tensors() const { return tensors_; }
  /// The free text of the header (`__metadata__`).
  const StringMap& metadata() const { return metadata_; }

  /// Throws std::runtime_error naming the file and `name` if there is no such tensor.
  const SafetensorsInfo& info(const std::string& name) const;
  /// A contiguous CPU tensor with memory of its own. Throws as info(), and if the file cannot be read.
  at::Tensor tensor(const std::string& name) const;

 private:
  SafetensorsReader(std::filesystem::path path, int descriptor);
  uint64_t read_header_size(uint64_t file_bytes) const;
  void read(void* destination, uint64_t offset, uint64_t size) const;

  std::filesystem::path path_;
  int descriptor_ = -1;
  std::map<std::string, SafetensorsInfo> tensors_;
  StringMap metadata_;
};

/// Every tensor of the file. Throws as SafetensorsReader.
BOV_API TensorMap load_safetensors(const std::filesystem::path& path);

/// Writes the tensors (any device, any strides) in one step, as AtomicFile does; equal input gives equal
/// bytes. Tensors are stored by falling element size, then by name, so that each is aligned to its elements.
/// Throws c10::Error naming a tensor or metadata that the format cannot hold (undefined, sparse, another
/// dtype, the name `__metadata__`, text that is no UTF-8), and std::runtime_error if the file cannot be
/// written.
BOV_API void save_safetensors(const std::filesystem::path& path,
                              const TensorMap& tensors,
                              const StringMap& metadata = {});

}  // namespace bov
