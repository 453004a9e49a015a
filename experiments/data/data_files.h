#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace bov::experiments {

/// Names inside a data folder.
inline constexpr const char* kManifestFile = "manifest.json";
inline constexpr const char* kTokenizerFolder = "tokenizer";
inline constexpr const char* kDataFormat = "bov-data";
inline constexpr int kDataVersion = 1;

/// "train-00003.tokens"
inline std::string shard_name(std::string_view split, size_t index) {
  std::string number = std::to_string(index);
  number.insert(0, number.size() < 5 ? 5 - number.size() : 0, '0');
  return std::string(split) + "-" + number + ".tokens";
}

}  // namespace bov::experiments
