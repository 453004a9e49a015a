#include "experiments/generate/text_generation.h"

#include <stdexcept>

#include "experiments/data/data_files.h"
#include "experiments/generate/utf8_stream.h"
#include "experiments/report/number_text.h"
#include "experiments/tokenizer/tokenizer_files.h"
#include "experiments/train/run_files.h"
#include "experiments/train/run_folder.h"

namespace bov::experiments {
namespace {

double per_second(int64_t tokens, double seconds) {
  return seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
}

}  // namespace

Tokenizer run_tokenizer(const RunCheckpoint& run, const std::optional<std::filesystem::path>& folder) {
  const auto path = folder.value_or(std::filesystem::path(run.config.data.shards) / kTokenizerFolder);
  Tokenizer tokenizer = Tokenizer::load(path);
  const auto recorded = recorded_tokenizer(run.run_folder);
  if (recorded && *recorded != hash_text(tokenizer.hash())) {
    throw std::runtime_error(path.string() + " is tokenizer " + hash_text(tokenizer.hash()) +
                             ", but the run was trained with " + *recorded +
                             "; give that one with --tokenizer");
  }
  if (tokenizer.vocab_size() > run.config.model.vocab_size) {
    throw std::runtime_error(path.string() + " has " + std::to_string(tokenizer.vocab_size()) +
                             " tokens, the model only " + std::to_string(run.config.model.vocab_size));
  }
  return tokenizer;
}

TextGeneration generate_text(Decoder& decoder,
                             const Tokenizer& tokenizer,
                             const std::string& prompt,
                             GenerateOptions options,
                             const TextCallback& on_text) {
  if (prompt.empty()) throw std::invalid_argument("the prompt is empty; expected text");
  TokenSequence ids{tokenizer.bos()};
  for (const int32_t id : tokenizer.encode(prompt)) ids.push_back(id);
  options.stop_tokens.push_back(tokenizer.bos());

  TextGeneration result;
  result.texts.resize(static_cast<size_t>(options.samples));
  std::vector<Utf8Stream> streams(result.texts.size());
  const auto give = [&](int64_t sample, const std::string& text) {
    result.texts[sample] += text;
    return !on_text || text.empty() || on_text(sample, text);
  };
  const int64_t vocab_size = tokenizer.vocab_size();
  result.generation = generate(decoder, {ids}, options, [&](int64_t sample, int64_t token) {
    // A model may have more rows than the tokenizer has tokens; they stand for no text.
    return token >= vocab_size ||
           give(sample, streams[sample].push(tokenizer.table().piece(static_cast<int32_t>(token))));
  });
  for (int64_t sample = 0; sample < options.samples; ++sample) give(sample, streams[sample].finish());
  return result;
}

nlohmann::ordered_json to_json(const Generation& generation, const BankBytes& banks) {
  return {{"prompt_tokens", generation.prompt_tokens},
          {"prefill_seconds", generation.prefill_seconds},
          {"decode_tokens", generation.decode_tokens},
          {"decode_seconds", generation.decode_seconds},
          {"decode_tokens_per_second", per_second(generation.decode_tokens, generation.decode_seconds)},
          {"cache_bytes",
           {{"keys", generation.cache.keys},
            {"values", generation.cache.values},
            {"token_ids", generation.cache.token_ids}}},
          {"table_bytes", {{"device", banks.device}, {"host", banks.host}, {"file", banks.file}}}};
}

std::string to_text(const Generation& generation, const BankBytes& banks) {
  const auto mebibytes = [](int64_t bytes) { return mebibytes_text(bytes, 2) + " MiB"; };
  std::string text = std::to_string(generation.prompt_tokens) + " tokens read at " +
                     fixed_text(per_second(generation.prompt_tokens, generation.prefill_seconds), 1) +
                     "/s, " + std::to_string(generation.decode_tokens) + " decoded at " +
                     fixed_text(per_second(generation.decode_tokens, generation.decode_seconds), 1) +
                     "/s; cache: K " + mebibytes(generation.cache.keys) + ", V " +
                     mebibytes(generation.cache.values) + ", ids " + mebibytes(generation.cache.token_ids);
  const auto add = [&](const char* place, int64_t bytes) {
    if (bytes > 0) text += std::string("; tables ") + place + " " + mebibytes(bytes);
  };
  add("on the device", banks.device);
  add("on the host", banks.host);
  add("in the file", banks.file);
  return text;
}

}  // namespace bov::experiments
