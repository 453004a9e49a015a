#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

namespace bov::experiments {

/// What a shard says about itself.
struct TokenShardInfo {
  uint32_t token_size = 2;  ///< bytes a token: 2 or 4
  int32_t vocab_size = 0;
  int32_t bos = 0;
  uint64_t tokenizer_hash = 0;  ///< TokenTable::hash of the tokenizer that made it
  int64_t documents = 0;
  int64_t tokens = 0;
  int64_t text_bytes = 0;  ///< bytes of the documents' text
  uint32_t checksum = 0;   ///< CRC-32 of everything after the header
};

/// A read-only, memory-mapped file of encoded documents. Little-endian layout (docs/data_formats.md): a
/// 64-byte header, the tokens of all documents without bos, zero padding to 8 bytes, then the end position of
/// every document as uint64.
class TokenShard {
 public:
  /// Maps `path` and checks magic, version, header checksum, file size and the document index. Throws
  /// std::runtime_error naming the file and what is wrong: not a shard, truncated, another version.
  static TokenShard open(const std::filesystem::path& path);

  TokenShard(TokenShard&&) noexcept = default;
  TokenShard& operator=(TokenShard&&) noexcept = default;

  const TokenShardInfo& info() const { return info_; }
  const std::filesystem::path& path() const { return path_; }
  int64_t documents() const { return info_.documents; }
  int64_t size_in_bytes() const;
  /// Tokens of document `index`, bos not counted.
  int64_t length(int64_t index) const;
  /// Writes tokens [offset, offset + out.size()) of document `index` to `out`.
  void copy(int64_t index, int64_t offset, std::span<int32_t> out) const;
  /// Reads the whole file and compares its checksum; throws std::runtime_error if it is damaged.
  void verify() const;

 private:
  struct Mapping;
  TokenShard(std::filesystem::path path, std::shared_ptr<const Mapping> mapping, TokenShardInfo info);
  int64_t begin_of(int64_t index) const { return index == 0 ? 0 : static_cast<int64_t>(ends_[index - 1]); }

  std::filesystem::path path_;
  std::shared_ptr<const Mapping> mapping_;
  TokenShardInfo info_;
  const std::byte* tokens_ = nullptr;
  std::span<const uint64_t> ends_;
};

}  // namespace bov::experiments
