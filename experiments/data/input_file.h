#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace bov::experiments {

/// The bytes of a file, or of standard input where the name is "-", decompressed if they begin as gzip does. Every byte
/// of the file counts: what follows the last gzip member is an error, not ignored.
class InputFile {
 public:
  /// Throws std::runtime_error naming a file that cannot be opened.
  explicit InputFile(const std::string& input);
  ~InputFile();

  const std::string& name() const { return name_; }

  /// Fills the front of `out`, which is not empty, and returns how far; 0 at the end. Throws std::runtime_error naming
  /// the file if it cannot be read, is damaged, ends too early or goes on behind its compressed data.
  size_t read(std::span<char> out);

 private:
  struct Stream;
  size_t copy(std::span<char> out);
  size_t decompress(std::span<char> out);
  bool fill();
  bool begins_as_gzip();

  std::string name_;
  int descriptor_ = -1;
  std::unique_ptr<Stream> stream_;
  enum class Form { kUnknown, kPlain, kGzip } form_ = Form::kUnknown;
  bool in_member_ = false;
};

}  // namespace bov::experiments
