#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "experiments/tokenizer/backend/backend_api.h"

struct bov_tokenizer_model {
  sentencepiece::SentencePieceProcessor processor;
};

namespace {

void report(std::string_view message, char* error, size_t error_size) {
  const size_t size = std::min(message.size(), error_size - 1);
  std::memcpy(error, message.data(), size);
  error[size] = '\0';
}

// Without SentencePiece's "file(line) [condition] " in front, where it has one.
std::string_view plain_reason(std::string_view message) {
  const size_t condition = message.find(") [");
  const size_t end = message.find("] ");
  const bool prefixed =
      condition != std::string_view::npos && end != std::string_view::npos && condition < end;
  return prefixed ? message.substr(end + 2) : message;
}

// Runs `body`, which returns a status; no exception may leave this library.
template <typename Body>
bool succeeds(Body body, char* error, size_t error_size) {
  try {
    const sentencepiece::util::Status status = body();
    if (!status.ok()) report(plain_reason(status.message()), error, error_size);
    return status.ok();
  } catch (const std::exception& exception) {
    report(exception.what(), error, error_size);
    return false;
  }
}

bov_tokenizer_model* load(const char* model, size_t size, char* error, size_t error_size) {
  auto* loaded = new bov_tokenizer_model;
  const auto body = [&] { return loaded->processor.LoadFromSerializedProto({model, size}); };
  if (succeeds(body, error, error_size)) return loaded;
  delete loaded;
  return nullptr;
}

void release(bov_tokenizer_model* model) {
  delete model;
}

int32_t vocab_size(const bov_tokenizer_model* model) {
  return model->processor.GetPieceSize();
}

// The text that a piece stands for: byte pieces are spelled "<0xNN>", and a space is U+2581 inside a piece.
std::string bytes_of(const sentencepiece::SentencePieceProcessor& processor, int32_t id) {
  if (processor.IsUnknown(id) || processor.IsControl(id)) return {};
  const std::string& piece = processor.IdToPiece(id);
  if (processor.IsByte(id)) {
    unsigned value = 0;
    std::from_chars(piece.data() + 3, piece.data() + 5, value, 16);
    return std::string(1, static_cast<char>(value));
  }
  static constexpr std::string_view kSpace = "\xe2\x96\x81";
  std::string bytes;
  for (size_t at = 0; at < piece.size();) {
    if (piece.compare(at, kSpace.size(), kSpace) == 0) {
      bytes += ' ';
      at += kSpace.size();
    } else {
      bytes += piece[at++];
    }
  }
  return bytes;
}

int64_t piece_bytes(const bov_tokenizer_model* model, int32_t id, char* bytes, size_t capacity) {
  const std::string text = bytes_of(model->processor, id);
  if (text.size() > capacity) return -1;
  std::memcpy(bytes, text.data(), text.size());
  return static_cast<int64_t>(text.size());
}

int64_t encode(const bov_tokenizer_model* model,
               const char* text,
               size_t size,
               int32_t* ids,
               char* error,
               size_t error_size) {
  std::vector<int> pieces;
  const auto body = [&] { return model->processor.Encode({text, size}, &pieces); };
  if (!succeeds(body, error, error_size)) return -1;
  if (pieces.size() > size) {
    report("more tokens than bytes", error, error_size);
    return -1;
  }
  std::copy(pieces.begin(), pieces.end(), ids);
  return static_cast<int64_t>(pieces.size());
}

class Sentences : public sentencepiece::SentenceIterator {
 public:
  explicit Sentences(const bov_tokenizer_training& training) : training_(training) { Next(); }

  bool done() const override { return done_; }
  void Next() override {
    const char* text = nullptr;
    size_t size = 0;
    done_ = training_.next_sentence(training_.context, &text, &size) == 0;
    if (!done_) sentence_.assign(text, size);
  }
  const std::string& value() const override { return sentence_; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  const bov_tokenizer_training& training_;
  std::string sentence_;
  bool done_ = false;
};

int32_t train(const bov_tokenizer_training* training, char* error, size_t error_size) {
  char coverage[32];
  std::snprintf(coverage, sizeof coverage, "%.9g", training->character_coverage);
  // Identity normalisation and the whitespace options keep every byte. SentencePiece insists on an unknown
  // piece, but byte fallback makes it unreachable: its place is given to bos, so that no id is wasted.
  const std::unordered_map<std::string, std::string> options = {
      {"model_type", "bpe"},
      {"byte_fallback", "true"},
      {"add_dummy_prefix", "false"},
      {"remove_extra_whitespaces", "false"},
      {"unk_id", "0"},
      {"unk_piece", training->bos_piece},
      {"bos_id", "-1"},
      {"eos_id", "-1"},
      {"pad_id", "-1"},
      {"vocab_size", std::to_string(training->vocab_size)},
      {"split_digits", "true"},
      {"character_coverage", coverage},
      {"minloglevel", "2"},
      {"allow_whitespace_only_pieces", "true"},
      {"hard_vocab_limit", "true"},
      {"normalization_rule_name", "identity"},
      {"max_sentence_length", "8192"}};
  std::string model;
  Sentences sentences(*training);
  const auto body = [&] { return sentencepiece::SentencePieceTrainer::Train(options, &sentences, &model); };
  if (!succeeds(body, error, error_size)) return -1;
  training->take_model(training->context, model.data(), model.size());
  return 0;
}

}  // namespace

const bov_tokenizer_api* bov_tokenizer_get_api(void) {
  static const bov_tokenizer_api api = {load, release, vocab_size, piece_bytes, encode, train};
  return &api;
}
