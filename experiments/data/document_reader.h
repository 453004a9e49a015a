#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace bov::experiments {

/// What a reader has met so far. Every line or document that is not handed on is counted here by its reason.
struct ReadCounts {
  int64_t documents = 0;      ///< handed on
  int64_t bytes = 0;          ///< of their text
  int64_t empty = 0;          ///< documents without a byte; never handed on
  int64_t invalid = 0;        ///< lines that are no JSON object with a string `text` (only with skip_invalid)
  int64_t invalid_bytes = 0;  ///< of those lines
};
nlohmann::json to_json(const ReadCounts& counts);

struct ReaderOptions {
  /// Count lines that are no valid document instead of stopping at the first.
  bool skip_invalid = false;
};

/// Reads documents one after the other from files:
///
/// - `.txt`: a line that is exactly `<|endoftext|>` separates documents; without such a line the whole file
///   is one document. The newline before a separator belongs to it; every other byte is kept.
/// - `.jsonl`: one JSON object a line; its string `text` is the document. Blank lines are ignored.
/// - either of them with `.gz` after it.
/// - `-`: standard input, as `.jsonl` (compressed or not).
class DocumentReader {
 public:
  /// Throws std::runtime_error for an unknown ending or a file that cannot be opened (all are tried at once).
  explicit DocumentReader(std::vector<std::string> inputs, ReaderOptions options = {});
  ~DocumentReader();

  /// The next document, or nothing after the last. Throws std::runtime_error naming file and line for an
  /// invalid line, and naming the file for a compressed file that is damaged or ends too early.
  std::optional<std::string> next();

  const ReadCounts& counts() const { return counts_; }

 private:
  class Lines;
  std::optional<std::string> next_json();
  std::optional<std::string> next_text();
  bool open_next_file();

  std::vector<std::string> inputs_;
  ReaderOptions options_;
  ReadCounts counts_;
  size_t next_input_ = 0;
  bool json_lines_ = false;
  std::unique_ptr<Lines> lines_;
};

}  // namespace bov::experiments
