#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "experiments/data/document_reader.h"

namespace bov::experiments {

struct DataBuildOptions {
  std::filesystem::path tokenizer = {};  ///< folder made by `bov tokenizer train`
  int validation_per_mille = 10;         ///< thousandths of the documents, chosen by the hash of their text
  int64_t shard_tokens = 64 << 20;       ///< a shard is closed at the first document that reaches this size
  int threads = 2;  ///< encode this many documents at once; the result is the same for any number
};

/// Encodes `documents` into token shards in the new folder `output` and returns the manifest written there.
/// Each document is decoded again and compared with its text. The manifest comes last, so a folder without it
/// is unfinished. Throws std::runtime_error if `output` already holds data, if no document arrives, or if a
/// document would lose a byte.
nlohmann::json build_data(DocumentReader& documents,
                          const DataBuildOptions& options,
                          const std::filesystem::path& output);

}  // namespace bov::experiments
