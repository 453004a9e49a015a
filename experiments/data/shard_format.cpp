#include "experiments/data/shard_format.h"

#include <zlib.h>

#include <bit>

namespace bov::experiments {

static_assert(std::endian::native == std::endian::little, "token shards are mapped as they lie on disk");

uint32_t extend_checksum(uint32_t checksum, std::span<const std::byte> bytes) {
  return static_cast<uint32_t>(crc32_z(checksum, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

uint32_t shard_header_checksum(const ShardHeader& header) {
  return extend_checksum(0,
                         std::as_bytes(std::span(&header, 1)).first(offsetof(ShardHeader, header_checksum)));
}

ShardHeader make_shard_header(const TokenShardInfo& info) {
  ShardHeader header{kShardMagic,
                     kShardVersion,
                     info.token_size,
                     static_cast<uint32_t>(info.vocab_size),
                     info.bos,
                     info.tokenizer_hash,
                     static_cast<uint64_t>(info.documents),
                     static_cast<uint64_t>(info.tokens),
                     static_cast<uint64_t>(info.text_bytes),
                     info.checksum,
                     0};
  header.header_checksum = shard_header_checksum(header);
  return header;
}

}  // namespace bov::experiments
