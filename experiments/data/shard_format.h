#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "experiments/data/token_shard.h"

namespace bov::experiments {

/// The first bytes of a shard, exactly as on disk (little-endian machines only).
struct ShardHeader {
  std::array<char, 8> magic;
  uint32_t version;
  uint32_t token_size;
  uint32_t vocab_size;
  int32_t bos;
  uint64_t tokenizer_hash;
  uint64_t documents;
  uint64_t tokens;
  uint64_t text_bytes;
  uint32_t checksum;         ///< CRC-32 of the bytes after the header
  uint32_t header_checksum;  ///< CRC-32 of the bytes before this field
};
static_assert(sizeof(ShardHeader) == 64 && alignof(ShardHeader) == 8);

inline constexpr std::array<char, 8> kShardMagic = {'b', 'o', 'v', 't', 'o', 'k', 'e', 'n'};
inline constexpr uint32_t kShardVersion = 1;

ShardHeader make_shard_header(const TokenShardInfo& info);
uint32_t shard_header_checksum(const ShardHeader& header);

/// Bytes of the tokens with their padding to the 8-byte alignment of the document index.
constexpr uint64_t padded_token_bytes(uint64_t tokens, uint32_t token_size) {
  return (tokens * token_size + 7) / 8 * 8;
}

/// zlib's CRC-32 of any size, continued from `checksum`.
uint32_t extend_checksum(uint32_t checksum, std::span<const std::byte> bytes);

}  // namespace bov::experiments
