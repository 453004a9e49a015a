#include "experiments/tokenizer/text_encoder.h"

#include "experiments/tokenizer/backend/tokenizer_backend.h"
#include "experiments/tokenizer/utf8_runs.h"

namespace bov::experiments {
namespace {

// Bounds of the memory that is spent on remembering.
constexpr size_t kLongestKnown = 64;
constexpr size_t kMostKnown = 1 << 17;

}  // namespace

std::vector<int32_t> TextEncoder::encode(std::string_view text) {
  std::vector<int32_t> ids;
  while (!text.empty()) {
    const TextRun run = take_run(text);
    if (run.faithful) {
      encode_words(run.bytes, ids);
    } else {
      for (const char byte : run.bytes) ids.push_back(tokenizer_.byte_id(byte));
    }
  }
  return ids;
}

void TextEncoder::encode_words(std::string_view text, std::vector<int32_t>& ids) {
  while (!text.empty()) encode_word(take_word(text), ids);
}

void TextEncoder::encode_word(std::string_view word, std::vector<int32_t>& ids) {
  const auto known = known_.find(word);
  if (known != known_.end()) {
    ids.insert(ids.end(), known->second.begin(), known->second.end());
    return;
  }
  std::vector<int32_t> word_ids;
  tokenizer_.backend().encode(word, word_ids);
  ids.insert(ids.end(), word_ids.begin(), word_ids.end());
  if (word.size() > kLongestKnown) return;
  if (known_.size() == kMostKnown) known_.clear();
  known_.emplace(word, std::move(word_ids));
}

}  // namespace bov::experiments
