#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

struct bov_tokenizer_api;
struct bov_tokenizer_model;

namespace bov::experiments {

/// SentencePiece behind libbov_tokenizer.so.
///
/// SentencePiece and LibTorch must not share a symbol space: both define `FLAGS_minloglevel`, a 4-byte int in
/// libc10 and a 32-byte object in libsentencepiece, so that whichever is loaded second writes into the
/// other's memory; both also bring their own protobuf. Hence the library and SentencePiece live in a linker
/// namespace of their own (dlmopen), where no symbol of either side, of any LibTorch version, is visible to
/// the other. Every method is safe to call from several threads.
class TokenizerBackend {
 public:
  /// Loads a serialized model. Throws std::runtime_error with SentencePiece's reason.
  explicit TokenizerBackend(std::string_view model);
  ~TokenizerBackend();
  TokenizerBackend(const TokenizerBackend&) = delete;
  TokenizerBackend& operator=(const TokenizerBackend&) = delete;

  int32_t vocab_size() const;
  /// The bytes that `id` stands for; empty for specials.
  std::string piece_bytes(int32_t id) const;
  /// Appends the ids of `text`, which must be well-formed UTF-8 without U+2581, to `ids`.
  void encode(std::string_view text, std::vector<int32_t>& ids) const;

 private:
  const bov_tokenizer_api& api_;
  bov_tokenizer_model* model_;
};

/// Loads libbov_tokenizer.so now rather than at first use. Throws std::runtime_error where it cannot be
/// loaded.
void load_tokenizer_backend();

/// Trains a BPE model of exactly `vocab_size` ids (bos, 256 bytes, the rest pieces) on the sentences that
/// `next_sentence` returns until it returns nothing; the view must live until the next call. Returns the
/// serialized model. Throws std::runtime_error, for instance where the text is too small for the vocabulary,
/// and passes on what `next_sentence` throws.
std::string train_backend_model(int32_t vocab_size,
                                double character_coverage,
                                const std::string& bos_piece,
                                const std::function<std::optional<std::string_view>()>& next_sentence);

}  // namespace bov::experiments
