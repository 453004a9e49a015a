#pragma once

#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

namespace bov::testing {

/// English-like text: sentences of words drawn from a skewed distribution, with numbers and line breaks.
/// Equal seeds give equal text.
inline std::string random_text(unsigned seed, int words) {
  static const std::vector<std::string> kWords = {
      "the",       "of",     "and",       "a",          "to",       "in",     "value",    "bank",
      "attention", "layer",  "token",     "memory",     "reads",    "writes", "learning", "deep",
      "residual",  "stream", "embedding", "projection", "gradient", "step",   "model",    "small",
      "quick",     "brown",  "fox",       "jumps",      "lazy",     "river",  "mountain", "house",
      "green",     "walked", "talking",   "reading",    "unlikely", "café",   "naïve",    "rows"};
  std::mt19937 random(seed);
  std::string text;
  for (int i = 0; i < words; ++i) {
    const size_t common = 1 + random() % kWords.size();
    const size_t pick = random() % common;
    text += i == 0 ? "" : random() % 11 == 0 ? ".\n" : " ";
    text += random() % 23 == 0 ? std::to_string(random() % 2000) : kWords[pick];
  }
  return text;
}

/// `count` bytes of which many are awkward: invalid UTF-8, NUL, the block characters that SentencePiece uses
/// itself.
inline std::string random_bytes(std::mt19937& random, int count) {
  static const std::vector<std::string> kAwkward = {"\xe2\x96\x81", "\xe2\x96\x85", std::string(1, '\0'),
                                                    "\xef\xbf\xbd", "\xef\xbb\xbf", "\xf0\x9f\x98\x80",
                                                    "\xc0\x80",     "\xed\xa0\x80", "\xf4\x90\x80\x80",
                                                    "\xe2\x96",     "\xff",         "<0x0A>",
                                                    "<|bos|>",      "<unk>",        "  ",
                                                    "\r\n",         "\t",           " the",
                                                    "1234"};
  std::string bytes;
  while (static_cast<int>(bytes.size()) < count) {
    bytes += random() % 3 == 0 ? kAwkward[random() % kAwkward.size()]
                               : std::string(1, static_cast<char>(random()));
  }
  return bytes;
}

inline void write_file(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace bov::testing
