#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "experiments/data/document_reader.h"

namespace bov::experiments {

inline constexpr int32_t kSmallestVocabulary = 1 + 256;  ///< bos and the bytes; one more at least is learned
inline constexpr int32_t kLargestVocabulary = 1 << 20;   ///< beyond any use; BPE takes hours to get there

struct TokenizerTrainingOptions {
  int32_t vocab_size = 32768;
  /// Share of the characters that get a piece of their own; the rarest ones are spelled in bytes.
  double character_coverage = 0.9995;
  /// Training stops reading after this many bytes of text; time and memory grow with it.
  int64_t max_bytes = 100'000'000;
  /// Documents of the validation split are not learned from: must equal the split of `bov data build`.
  int validation_per_mille = 10;
};

/// What the training saw; stored under `training` in tokenizer.json.
struct TokenizerTrainingReport {
  int64_t documents = 0;           ///< learned from
  int64_t bytes = 0;               ///< of their text
  int64_t unlearnable_bytes = 0;   ///< of these: invalid UTF-8, NUL, U+2581, U+2585; always spelled in bytes
  int64_t held_out_documents = 0;  ///< of the validation split, not learned from
  bool stopped_at_max_bytes = false;
  ReadCounts read;
};
nlohmann::json to_json(const TokenizerTrainingReport& report);

/// Trains a SentencePiece BPE model on `documents` and writes `tokenizer.model` and `tokenizer.json` to
/// `folder`, which is made. Words, digits and runs of whitespace are split as pieces; normalisation is off,
/// so that encoding loses nothing. Throws std::runtime_error where there is no text, it is too small for the
/// vocabulary, the vocabulary is not between the limits above, or `folder` already holds a tokenizer.
TokenizerTrainingReport train_tokenizer(DocumentReader& documents,
                                        const TokenizerTrainingOptions& options,
                                        const std::filesystem::path& folder);

}  // namespace bov::experiments
