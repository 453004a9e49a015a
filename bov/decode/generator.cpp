#include "bov/decode/generator.h"

#include <algorithm>
#include <chrono>
#include <optional>

namespace bov {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void check_prompts(const std::vector<TokenSequence>& prompts,
                   const GenerateOptions& options,
                   int64_t vocab_size) {
  TORCH_CHECK(!prompts.empty(), "generate: there is no prompt; expected 1 or more");
  for (size_t p = 0; p < prompts.size(); ++p) {
    const auto length = static_cast<int64_t>(prompts[p].size());
    TORCH_CHECK(length > 0, "generate: prompt ", p, " is empty; expected 1 token or more");
    TORCH_CHECK(length < options.max_length, "generate: prompt ", p, " has ", length,
                " tokens; expected fewer than max_length = ", options.max_length);
    for (size_t i = 0; i < prompts[p].size(); ++i) {
      TORCH_CHECK(prompts[p][i] >= 0 && prompts[p][i] < vocab_size, "generate: token ", i, " of prompt ", p,
                  " is id ", prompts[p][i], ", outside the vocabulary of ", vocab_size,
                  "; was it made by another tokenizer?");
    }
  }
}

/// The batch of sequences that have not ended.
class Continuation {
 public:
  Continuation(Decoder& decoder, const GenerateOptions& options, const TokenCallback& on_token)
      : decoder_(decoder), options_(options), on_token_(on_token) {}

  Generation run(const std::vector<TokenSequence>& prompts);

 private:
  struct Open {
    int64_t sequence;
    Sampler sampler;
    int64_t tokens_left;
    int64_t token = 0;
  };
  void prefill(const std::vector<TokenSequence>& prompts);
  torch::Tensor read_prompt(const TokenSequence& prompt, DecodeState& state);
  void choose(const torch::Tensor& logits);

  Decoder& decoder_;
  const GenerateOptions& options_;
  const TokenCallback& on_token_;
  Generation result_;
  std::vector<Open> open_;
  std::optional<DecodeState> state_;
};

torch::Tensor Continuation::read_prompt(const TokenSequence& prompt, DecodeState& state) {
  const torch::Tensor ids =
      torch::tensor(prompt, torch::kInt64).to(decoder_.model()->embedding.device()).unsqueeze(0);
  torch::Tensor logits;
  for (int64_t start = 0; start < ids.size(1); start += options_.prefill_chunk) {
    logits = decoder_.next_logits(ids.slice(1, start, start + options_.prefill_chunk), state);
  }
  return logits;
}

void Continuation::prefill(const std::vector<TokenSequence>& prompts) {
  std::vector<DecodeState> states;
  std::vector<torch::Tensor> logits;
  for (const TokenSequence& prompt : prompts) {
    DecodeState state = decoder_.start();
    logits.push_back(read_prompt(prompt, state).expand({options_.samples, -1}));
    states.push_back(options_.samples == 1 ? std::move(state)
                                           : state.select(std::vector<int64_t>(options_.samples, 0)));
    const auto length = static_cast<int64_t>(prompt.size());
    result_.prompt_tokens += length;
    for (int64_t sample = 0; sample < options_.samples; ++sample) {
      const auto sequence = static_cast<int64_t>(open_.size());
      open_.push_back({.sequence = sequence,
                       .sampler = Sampler(options_.sampling, options_.seed + static_cast<uint64_t>(sequence)),
                       .tokens_left = std::min(options_.max_new_tokens, options_.max_length - length)});
    }
  }
  state_ = states.size() == 1 ? std::move(states.front()) : DecodeState::join(states);
  result_.sequences.resize(open_.size());
  result_.cache = state_->bytes();
  choose(torch::cat(logits));
}

/// The next token of every open sequence; those that end leave the batch.
void Continuation::choose(const torch::Tensor& logits) {
  std::vector<int64_t> staying;
  for (size_t i = 0; i < open_.size(); ++i) {
    Open& open = open_[i];
    open.token = open.sampler.next(logits[static_cast<int64_t>(i)]);
    result_.sequences[open.sequence].push_back(open.token);
    const bool wanted = !on_token_ || on_token_(open.sequence, open.token);
    const auto& stops = options_.stop_tokens;
    const bool stopped = std::find(stops.begin(), stops.end(), open.token) != stops.end();
    if (wanted && !stopped && --open.tokens_left > 0) staying.push_back(static_cast<int64_t>(i));
  }
  if (staying.size() == open_.size()) return;
  std::vector<Open> rest;
  for (const int64_t i : staying) rest.push_back(std::move(open_[i]));
  open_ = std::move(rest);
  if (!open_.empty()) state_ = state_->select(staying);
}

Generation Continuation::run(const std::vector<TokenSequence>& prompts) {
  const auto start = Clock::now();
  prefill(prompts);
  result_.prefill_seconds = seconds_since(start);
  const auto decode_start = Clock::now();
  while (!open_.empty()) {
    std::vector<int64_t> tokens;
    for (const Open& open : open_) tokens.push_back(open.token);
    const torch::Tensor ids =
        torch::tensor(tokens, torch::kInt64).to(decoder_.model()->embedding.device()).unsqueeze(1);
    result_.decode_tokens += static_cast<int64_t>(tokens.size());
    const torch::Tensor logits = decoder_.next_logits(ids, *state_);
    if (state_->bytes().total() > result_.cache.total()) result_.cache = state_->bytes();
    choose(logits);
  }
  result_.decode_seconds = seconds_since(decode_start);
  return std::move(result_);
}

}  // namespace

void GenerateOptions::validate() const {
  sampling.validate();
  const auto check = [](const char* field, int64_t value) {
    TORCH_CHECK(value >= 1, "GenerateOptions: ", field, " is ", value, "; expected 1 or more");
  };
  check("samples", samples);
  check("max_new_tokens", max_new_tokens);
  check("max_length", max_length);
  check("prefill_chunk", prefill_chunk);
}

Generation generate(Decoder& decoder,
                    const std::vector<TokenSequence>& prompts,
                    const GenerateOptions& options,
                    const TokenCallback& on_token) {
  options.validate();
  check_prompts(prompts, options, decoder.layout().vocab_size);
  return Continuation(decoder, options, on_token).run(prompts);
}

}  // namespace bov
