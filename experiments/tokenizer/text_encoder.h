#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "experiments/tokenizer/tokenizer.h"

namespace bov::experiments {

/// Encodes many texts with one tokenizer, several times faster than Tokenizer::encode: it remembers the ids
/// of words. The result is the same. One thread at a time; `tokenizer` must outlive it.
class TextEncoder {
 public:
  explicit TextEncoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  /// Ids of `text`, without bos.
  std::vector<int32_t> encode(std::string_view text);

 private:
  // Lets a view be looked up without making a string of it.
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view word) const { return std::hash<std::string_view>{}(word); }
  };

  void encode_words(std::string_view text, std::vector<int32_t>& ids);
  void encode_word(std::string_view word, std::vector<int32_t>& ids);

  const Tokenizer& tokenizer_;
  std::unordered_map<std::string, std::vector<int32_t>, Hash, std::equal_to<>> known_;
};

}  // namespace bov::experiments
