#pragma once

#include <string_view>

namespace bov::experiments {

/// A stretch of text: one that SentencePiece keeps byte for byte, or one that it would alter or skip.
struct TextRun {
  std::string_view bytes;
  bool faithful = true;
};

/// Takes the next run off the front of `text`, which must not be empty. Not faithful are bytes that are no
/// well-formed UTF-8 (they would become U+FFFD), U+2581 (would become a space), U+2585 and NUL (sentences
/// with them are not trained on).
TextRun take_run(std::string_view& text);

/// Takes a front part of at most `limit` bytes (at least 4) off `text`, well-formed UTF-8, at the best place:
/// after the last newline, else between a non-space and a space, else at the limit, never inside a character.
std::string_view take_sentence(std::string_view& text, size_t limit);

/// Takes the first word off `text`, which must not be empty: everything up to the place where a space follows
/// a non-space. No piece of the vocabulary reaches across such a place, so the ids of the words are the ids
/// of the whole.
std::string_view take_word(std::string_view& text);

}  // namespace bov::experiments
