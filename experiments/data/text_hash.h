#pragma once

#include <cstdint>
#include <string_view>

namespace bov::experiments {

/// 64-bit FNV-1a over the bytes, then murmur3's finaliser, which spreads the result over all bits. Never
/// changes: splits and tokenizer identities on disk depend on it.
constexpr uint64_t text_hash(std::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char byte : bytes) {
    hash ^= static_cast<unsigned char>(byte);
    hash *= 0x100000001b3;
  }
  hash ^= hash >> 33;
  hash *= 0xff51afd7ed558ccd;
  hash ^= hash >> 33;
  hash *= 0xc4ceb9fe1a85ec53;
  hash ^= hash >> 33;
  return hash;
}

/// Whether a document belongs to the validation split, `per_mille` thousandths of all documents. A property
/// of its text alone: neither order nor number of files, shards or threads matter, and repeats of a document
/// share a side.
constexpr bool in_validation_split(std::string_view text, int per_mille) {
  return text_hash(text) % 1000 < static_cast<uint64_t>(per_mille);
}

}  // namespace bov::experiments
