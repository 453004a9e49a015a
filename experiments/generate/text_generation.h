#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bov/decode/generator.h"
#include "experiments/tokenizer/tokenizer.h"
#include "experiments/train/run_model.h"

/// Text in, text out, by the checkpoint of a run.
namespace bov::experiments {

/// The tokenizer that the run was trained with, from `folder` or else from the run's data. A run that has recorded
/// none takes any. Throws std::runtime_error if it is missing, if the run recorded another one's
/// hash, or if its vocabulary does not fit the model.
Tokenizer run_tokenizer(const RunCheckpoint& run, const std::optional<std::filesystem::path>& folder);

struct TextGeneration {
  std::vector<std::string> texts;  ///< of each sample, without the prompt
  Generation generation;
};

/// Called with text as it is decoded, in whole UTF-8 characters. False stops all samples.
using TextCallback = std::function<bool(int64_t sample, std::string_view text)>;

/// Goes on from `prompt`, which follows a bos token as every document does; ends at the next one. Throws
/// std::invalid_argument for an empty prompt, and as generate().
TextGeneration generate_text(Decoder& decoder,
                             const Tokenizer& tokenizer,
                             const std::string& prompt,
                             GenerateOptions options,
                             const TextCallback& on_text = {});

/// Tokens, seconds and bytes under the names that a program may read.
nlohmann::ordered_json to_json(const Generation& generation, const BankBytes& banks);
/// The same as a line.
std::string to_text(const Generation& generation, const BankBytes& banks);

}  // namespace bov::experiments
