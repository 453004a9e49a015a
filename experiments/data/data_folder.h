#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "experiments/data/token_documents.h"
#include "experiments/tokenizer/token_table.h"

namespace bov::experiments {

/// A folder made by `bov data build`: `manifest.json`, `tokenizer/`, `train-NNNNN.tokens` and
/// `validation-NNNNN.tokens`.
class DataFolder {
 public:
  /// Throws std::runtime_error naming the file that is missing, unfinished, damaged or made with another
  /// tokenizer.
  static DataFolder open(const std::filesystem::path& folder);
  /// Whether `folder` holds finished data, damaged or not.
  static bool exists(const std::filesystem::path& folder);

  const TokenDocuments& train() const { return train_; }
  const TokenDocuments& validation() const { return validation_; }
  const TokenTable& tokens() const { return tokens_; }
  int32_t vocab_size() const { return tokens_.vocab_size(); }
  int32_t bos() const { return tokens_.bos(); }
  uint64_t tokenizer_hash() const { return tokens_.hash(); }
  /// Bytes of each id, 0 for specials.
  const std::vector<int32_t>& token_bytes() const { return tokens_.token_bytes(); }
  const nlohmann::json& manifest() const { return manifest_; }
  /// Equal for folders that train alike, wherever they lie (data_identity.h).
  nlohmann::json identity() const;

  /// Bytes of all shards.
  int64_t size_in_bytes() const;
  /// Reads every shard and compares its checksum. Throws std::runtime_error naming a damaged one.
  void verify() const;
  /// The same where it takes a few seconds at most: for more than kQuickBytes nothing is read and the answer is false.
  bool verify_if_quick() const;

  /// CRC-32 reads about a gigabyte a second, and a grid starts dozens of runs.
  static constexpr int64_t kQuickBytes = int64_t{4} << 30;

 private:
  DataFolder(nlohmann::json manifest, TokenTable tokens, TokenDocuments train, TokenDocuments validation);

  nlohmann::json manifest_;
  TokenTable tokens_;
  TokenDocuments train_;
  TokenDocuments validation_;
};

}  // namespace bov::experiments
