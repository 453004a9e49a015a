#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "experiments/data/token_shard.h"

namespace bov::experiments {

/// Collects encoded documents in memory and writes them as one shard (TokenShard gives the layout).
class TokenShardWriter {
 public:
  /// Tokens take 2 bytes if `vocab_size` <= 65536, else 4.
  TokenShardWriter(int32_t vocab_size, int32_t bos, uint64_t tokenizer_hash);

  /// Adds a document of at least one token, bos not included; `text_bytes` is the size of its text. Throws
  /// std::invalid_argument for an empty document or an id outside the vocabulary.
  void add(std::span<const int32_t> tokens, int64_t text_bytes);

  int64_t documents() const { return info_.documents; }
  int64_t tokens() const { return info_.tokens; }

  /// Writes the shard in one step, then starts an empty one. Returns what was written.
  TokenShardInfo write(const std::filesystem::path& path);

 private:
  TokenShardInfo info_;
  std::vector<std::byte> tokens_;
  std::vector<uint64_t> ends_;
};

}  // namespace bov::experiments
