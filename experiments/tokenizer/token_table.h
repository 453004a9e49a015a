#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace bov::experiments {

/// What every token id stands for: `tokenizer.json`, the readable half of a tokenizer folder. It needs no
/// SentencePiece, so programs that only count bytes or decode ids use this alone.
class TokenTable {
 public:
  /// `pieces[id]` is the exact byte string of the id, empty for specials. Throws std::runtime_error if `bos`
  /// is no special.
  TokenTable(std::vector<std::string> pieces, int32_t bos, uint64_t hash);

  /// Reads `folder`/tokenizer.json. Throws std::runtime_error naming the file and what is wrong with it.
  static TokenTable load(const std::filesystem::path& folder);

  int32_t vocab_size() const { return static_cast<int32_t>(pieces_.size()); }
  /// Id put before every document.
  int32_t bos() const { return bos_; }
  /// Identifies the model file: equal hashes mean equal ids for equal text.
  uint64_t hash() const { return hash_; }
  const std::string& piece(int32_t id) const;
  /// Bytes of each id, 0 for specials; the sum over an encoded text is the size of the text.
  const std::vector<int32_t>& token_bytes() const { return token_bytes_; }
  /// The bytes that `ids` stand for; specials add nothing. Throws std::out_of_range for an id outside the
  /// vocabulary.
  std::string decode(std::span<const int32_t> ids) const;

 private:
  std::vector<std::string> pieces_;
  std::vector<int32_t> token_bytes_;
  int32_t bos_;
  uint64_t hash_;
};

}  // namespace bov::experiments
