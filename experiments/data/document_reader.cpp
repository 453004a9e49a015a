#include "experiments/data/document_reader.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string_view>

#include "experiments/data/input_file.h"

namespace bov::experiments {
namespace {

constexpr std::string_view kSeparator = "<|endoftext|>";

enum class Format { kText, kJsonLines };

Format format_of(const std::string& input) {
  if (input == "-") return Format::kJsonLines;
  std::string_view name = input;
  if (name.ends_with(".gz")) name.remove_suffix(3);
  if (name.ends_with(".txt")) return Format::kText;
  if (name.ends_with(".jsonl")) return Format::kJsonLines;
  throw std::runtime_error(
      "cannot read '" + input +
      "': expected .txt, .jsonl, .txt.gz, .jsonl.gz, or - for JSON lines on standard input");
}

}  // namespace

nlohmann::json to_json(const ReadCounts& counts) {
  return {{"documents", counts.documents},
          {"bytes", counts.bytes},
          {"skipped",
           {{"empty", counts.empty}, {"invalid", counts.invalid}, {"invalid_bytes", counts.invalid_bytes}}}};
}

// Lines of one file, compressed or not.
class DocumentReader::Lines {
 public:
  explicit Lines(const std::string& input) : file_(input) {}

  // Reads the next line without its newline. `newline` tells whether it had one.
  bool next(std::string& line, bool& newline) {
    line.clear();
    newline = false;
    while (true) {
      if (at_ == size_ && !fill()) break;
      const char* begin = buffer_.data() + at_;
      const auto* end = static_cast<const char*>(std::memchr(begin, '\n', size_ - at_));
      newline = end != nullptr;
      const size_t count = newline ? static_cast<size_t>(end - begin) : size_ - at_;
      line.append(begin, count);
      at_ += count + (newline ? 1 : 0);
      if (newline) break;
    }
    const bool found = newline || !line.empty();
    if (found) ++number_;
    return found;
  }
  std::string place() const { return file_.name() + ":" + std::to_string(number_); }

 private:
  bool fill() {
    at_ = 0;
    size_ = file_.read(buffer_);
    return size_ > 0;
  }

  InputFile file_;
  std::array<char, 1 << 18> buffer_;
  size_t at_ = 0;
  size_t size_ = 0;
  int64_t number_ = 0;
};

DocumentReader::DocumentReader(std::vector<std::string> inputs, ReaderOptions options)
    : inputs_(std::move(inputs)), options_(options) {
  for (const std::string& input : inputs_) {
    format_of(input);
    if (input != "-" && access(input.c_str(), R_OK) != 0) {
      throw std::runtime_error("cannot read '" + input + "': " + std::strerror(errno));
    }
  }
}

DocumentReader::~DocumentReader() = default;

bool DocumentReader::open_next_file() {
  if (next_input_ == inputs_.size()) return false;
  const std::string& input = inputs_[next_input_++];
  json_lines_ = format_of(input) == Format::kJsonLines;
  lines_ = std::make_unique<Lines>(input);
  return true;
}

std::optional<std::string> DocumentReader::next() {
  while (lines_ || open_next_file()) {
    std::optional<std::string> document = json_lines_ ? next_json() : next_text();
    if (!document) {
      lines_.reset();
    } else if (document->empty()) {
      ++counts_.empty;
    } else {
      ++counts_.documents;
      counts_.bytes += static_cast<int64_t>(document->size());
      return document;
    }
  }
  return std::nullopt;
}

std::optional<std::string> DocumentReader::next_json() {
  std::string line;
  bool newline = false;
  while (lines_->next(line, newline)) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    std::string problem;
    try {
      nlohmann::json object = nlohmann::json::parse(line);
      if (object.is_object() && object.contains("text") && object["text"].is_string()) {
        return std::move(object["text"].get_ref<std::string&>());
      }
      problem = "expected a JSON object with a string \"text\"";
    } catch (const nlohmann::json::parse_error& error) {
      problem = "is no JSON, byte " + std::to_string(error.byte) + " of the line shows";
    } catch (const nlohmann::json::exception&) {
      problem = "is no JSON, a number in it is too large";
    }
    if (!options_.skip_invalid) throw std::runtime_error(lines_->place() + ": " + problem);
    ++counts_.invalid;
    counts_.invalid_bytes += static_cast<int64_t>(line.size());
  }
  return std::nullopt;
}

std::optional<std::string> DocumentReader::next_text() {
  std::string document;
  std::string line;
  bool newline = false;
  bool any = false;
  while (lines_->next(line, newline)) {
    any = true;
    if (line == kSeparator) {
      // The newline before the separator is part of the separation, not of the text.
      if (!document.empty()) document.pop_back();
      return document;
    }
    document += line;
    if (newline) document += '\n';
  }
  return any ? std::optional(std::move(document)) : std::nullopt;
}

}  // namespace bov::experiments
