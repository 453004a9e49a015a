#include "experiments/tokenizer/utf8_runs.h"

#include <cstddef>
#include <cstdint>

namespace bov::experiments {
namespace {

// Length of the well-formed UTF-8 sequence at the front of `text` (Unicode 15, table 3-7), or 0.
size_t sequence_length(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<uint8_t>(text[i]) : uint8_t{0}; };
  const auto tail = [&](size_t i) { return (byte(i) & 0xc0) == 0x80; };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead < 0xc2) return 0;
  if (lead < 0xe0) return tail(1) ? 2 : 0;
  if (lead < 0xf0) {
    const bool overlong = lead == 0xe0 && byte(1) < 0xa0;
    const bool surrogate = lead == 0xed && byte(1) > 0x9f;
    return tail(1) && tail(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (lead > 0xf4) return 0;
  const bool overlong = lead == 0xf0 && byte(1) < 0x90;
  const bool beyond = lead == 0xf4 && byte(1) > 0x8f;
  return tail(1) && tail(2) && tail(3) && !overlong && !beyond ? 4 : 0;
}

struct Character {
  size_t size;
  bool faithful;
};

Character first_character(std::string_view text) {
  const size_t size = sequence_length(text);
  if (size == 0) return {1, false};
  const std::string_view character = text.substr(0, size);
  return {size, character != "\xe2\x96\x81" && character != "\xe2\x96\x85" && character[0] != '\0'};
}

std::string_view take(std::string_view& text, size_t size) {
  const std::string_view front = text.substr(0, size);
  text.remove_prefix(size);
  return front;
}

bool word_begins(std::string_view text, size_t at) {
  return text[at] == ' ' && text[at - 1] != ' ';
}

}  // namespace

TextRun take_run(std::string_view& text) {
  const bool faithful = first_character(text).faithful;
  size_t size = 0;
  while (size < text.size()) {
    const Character next = first_character(text.substr(size));
    if (next.faithful != faithful) break;
    size += next.size;
  }
  return {take(text, size), faithful};
}

std::string_view take_sentence(std::string_view& text, size_t limit) {
  if (text.size() <= limit) return take(text, text.size());
  const size_t newline = text.rfind('\n', limit - 1);
  if (newline != std::string_view::npos) return take(text, newline + 1);
  for (size_t at = limit; at > 0; --at) {
    if (word_begins(text, at)) return take(text, at);
  }
  size_t at = limit;
  while ((static_cast<uint8_t>(text[at]) & 0xc0) == 0x80) --at;
  return take(text, at);
}

std::string_view take_word(std::string_view& text) {
  for (size_t at = 1; at < text.size(); ++at) {
    if (word_begins(text, at)) return take(text, at);
  }
  return take(text, text.size());
}

}  // namespace bov::experiments
