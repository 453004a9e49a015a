#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/tokenizer/token_table.h"

namespace bov::experiments {

class TokenizerBackend;

/// A trained SentencePiece BPE model with byte fallback, made lossless: decode(encode(text)) == text for any
/// bytes, invalid UTF-8 included. Copies share the model; every method may be called from several threads.
class Tokenizer {
 public:
  /// Opens a folder made by `bov tokenizer train`: `tokenizer.model` and `tokenizer.json`. Throws
  /// std::runtime_error naming the file if one is missing, damaged, or not of the same tokenizer.
  static Tokenizer load(const std::filesystem::path& folder);

  int32_t vocab_size() const { return table_.vocab_size(); }
  int32_t bos() const { return table_.bos(); }
  uint64_t hash() const { return table_.hash(); }
  const TokenTable& table() const { return table_; }
  const std::vector<int32_t>& token_bytes() const { return table_.token_bytes(); }

  /// Ids of `text`, without bos; TextEncoder is faster for many texts. Special tokens cannot be spelled:
  /// "<|bos|>" inside a text is ordinary text.
  std::vector<int32_t> encode(std::string_view text) const;
  std::string decode(std::span<const int32_t> ids) const { return table_.decode(ids); }

  /// The id that stands for this byte alone.
  int32_t byte_id(char byte) const { return byte_ids_[static_cast<unsigned char>(byte)]; }
  /// SentencePiece itself, which is not lossless for all bytes.
  const TokenizerBackend& backend() const { return *backend_; }

 private:
  Tokenizer(TokenTable table, std::shared_ptr<const TokenizerBackend> backend);

  TokenTable table_;
  std::vector<int32_t> byte_ids_;  // id of each single byte's fallback piece
  std::shared_ptr<const TokenizerBackend> backend_;
};

}  // namespace bov::experiments
