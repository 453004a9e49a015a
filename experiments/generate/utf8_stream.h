#pragma once

#include <string>
#include <string_view>

namespace bov::experiments {

/// Bytes that arrive in pieces, given on in whole UTF-8 characters: a token may end inside one. Bytes that can be part of
/// no character go through at once.
class Utf8Stream {
 public:
  /// Takes `bytes` and returns what can be shown: all but the beginning of a character whose rest has not arrived.
  std::string push(std::string_view bytes);
  /// What was held back, at the end.
  std::string finish();

 private:
  std::string held_;
};

}  // namespace bov::experiments
