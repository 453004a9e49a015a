#pragma once

#include <functional>
#include <vector>

#include "bov/decode/decoder.h"
#include "bov/decode/sampler.h"

namespace bov {

/// Token ids in order.
using TokenSequence = std::vector<int64_t>;

/// How each prompt is continued.
struct BOV_API GenerateOptions {
  SamplingOptions sampling;          ///< how a token is chosen
  uint64_t seed = 0;                 ///< sequence i draws with seed + i, whatever else is in the batch
  int64_t samples = 1;               ///< continuations of each prompt, which is read once
  int64_t max_new_tokens = 256;      ///< of each sequence
  int64_t max_length = 1 << 20;      ///< prompt and new tokens together
  std::vector<int64_t> stop_tokens;  ///< end a sequence; they are its last token
  int64_t prefill_chunk = 512;       ///< tokens of a prompt in one pass: bounds the memory of a long one

  /// Throws c10::Error naming the field, its value and what was expected.
  void validate() const;
};

/// Called for each token as it is chosen; false ends its sequence.
using TokenCallback = std::function<bool(int64_t sequence, int64_t token)>;

/// What generate() gives, with its costs.
struct BOV_API Generation {
  std::vector<TokenSequence> sequences;  ///< new tokens; sequence p·samples + s is sample s of prompt p
  double prefill_seconds = 0;            ///< of reading the prompts
  double decode_seconds = 0;             ///< of all later passes
  int64_t prompt_tokens = 0;             ///< of all prompts
  int64_t decode_tokens = 0;             ///< tokens that passes after the prompts gave
  CacheBytes cache;                      ///< at its largest
};

/// Goes on from each prompt. Sequences that end leave the batch. Throws c10::Error for a prompt that is empty, as long as
/// max_length or holds an id out of range, naming prompt and position.
BOV_API Generation generate(Decoder& decoder,
                            const std::vector<TokenSequence>& prompts,
                            const GenerateOptions& options,
                            const TokenCallback& on_token = {});

}  // namespace bov
