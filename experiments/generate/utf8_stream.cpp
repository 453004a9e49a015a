#include "experiments/generate/utf8_stream.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace bov::experiments {
namespace {

/// Bytes of the character that `lead` begins, 1 if it begins none of several.
size_t character_size(unsigned char lead) {
  if (lead >= 0xC2 && lead <= 0xDF) return 2;
  if (lead >= 0xE0 && lead <= 0xEF) return 3;
  return lead >= 0xF0 && lead <= 0xF4 ? 4 : 1;
}

/// Bytes at the end of `text` that begin a character and lack its rest.
size_t unfinished_bytes(std::string_view text) {
  const size_t longest = std::min<size_t>(3, text.size());
  for (size_t count = 1; count <= longest; ++count) {
    const auto byte = static_cast<unsigned char>(text[text.size() - count]);
    const bool continues = (byte & 0xC0) == 0x80;
    if (!continues) return character_size(byte) > count ? count : 0;
  }
  return 0;
}

}  // namespace

std::string Utf8Stream::push(std::string_view bytes) {
  held_ += bytes;
  const size_t unfinished = unfinished_bytes(held_);
  std::string ready = held_.substr(0, held_.size() - unfinished);
  held_.erase(0, ready.size());
  return ready;
}

std::string Utf8Stream::finish() {
  return std::exchange(held_, {});
}

}  // namespace bov::experiments
