#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bov/io/safetensors.h"

/// The JSON header of a safetensors file; internal to bov/io.
namespace bov {

struct SafetensorsHeader {
  std::map<std::string, SafetensorsInfo> tensors;  ///< begin and end count from the first data byte
  StringMap metadata;
};

/// Reads and checks a header whose file holds `data_size` bytes after it. Throws std::runtime_error, without
/// the file's name, saying what is wrong.
SafetensorsHeader parse_safetensors_header(std::string_view text, uint64_t data_size);

/// The header of tensors that are stored in the order given, padded with spaces to a multiple of 8 bytes.
/// Throws c10::Error naming a tensor or metadata whose text is no UTF-8.
std::string make_safetensors_header(const std::vector<std::pair<std::string, SafetensorsInfo>>& tensors,
                                    const StringMap& metadata);

/// True if the format has a name for `dtype`.
bool is_safetensors_dtype(at::ScalarType dtype);

/// All of the format's names that are known here, for error messages: "F64 F32 ...".
std::string safetensors_dtype_names();

}  // namespace bov
