#include <torch/types.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "bov/decode/decoder.h"
#include "bov/value/presets.h"
#include "experiments/bench/ops/decode_problem.h"
#include "experiments/bench/ops/op_benches.h"

namespace bov::experiments {
namespace {

/// Keys of 2.25 GiB: the states of a model that keeps values and of one that does not fit into 16 GiB together.
constexpr int64_t kMostPositions = 786432;
constexpr int64_t kChunk = 4096;

GPT random_model(const GPTOptions& options, c10::Device device) {
  GPT model(options);
  const torch::NoGradGuard no_grad;
  for (auto& parameter : model->parameters()) parameter.normal_(0, 0.02);
  model->to(device);
  return model;
}

/// The state after `history` [B, T]. Its keys and values are drawn, since reading a long text would take hours.
DecodeState state_after(const torch::Tensor& history, const Decoder& decoder) {
  const torch::NoGradGuard no_grad;
  const GPTOptions& options = decoder.model()->options();
  DecodeState state = decoder.start(history.size(0));
  for (const torch::Tensor& ids : history.split(kChunk, 1)) {
    state.append(ids, [&](const CacheKey& key) {
      if (key.kind == CacheKey::Kind::row_numbers) return ids;  // tables on the device: a row for each id
      const double scale = key.kind == CacheKey::Kind::keys ? options.qk_scale : 1;
      return torch::randn({ids.size(0), ids.size(1), options.n_kv_head, options.head_dim()},
                          torch::TensorOptions(options.compute_dtype).device(ids.device())) *
             scale;
    });
  }
  return state;
}

/// The next token of each sequence; then it is taken back, so that all steps are alike.
void step(Decoder& decoder, DecodeState& state, const torch::Tensor& ids) {
  decoder.next_logits(ids, state);
  for (int64_t sequence = 0; sequence < state.batch(); ++sequence) {
    state.truncate(sequence, state.lengths()[sequence] - 1);
  }
}

/// `state` is shared by decoders of equal layout.
BenchCase step_case(const std::string& method,
                    const DecodeProblem& problem,
                    const std::shared_ptr<Decoder>& decoder,
                    const std::shared_ptr<DecodeState>& state,
                    const torch::Tensor& ids) {
  step(*decoder, *state, ids);  // so that the caches have grown
  BenchCase made{.method = method,
                 .run = [=] { step(*decoder, *state, ids); },
                 .tokens = static_cast<double>(problem.batch),
                 .facts = problem.facts()};
  const CacheBytes bytes = state->bytes();
  made.facts["cache_bytes"] = bytes.total();
  made.facts["key_bytes"] = bytes.keys;
  made.facts["value_bytes"] = bytes.values;
  made.facts["token_id_bytes"] = bytes.token_ids;
  made.facts["table_bytes"] = decoder->banks().bytes().device;
  return made;
}

std::vector<BenchCase> step_cases(const BenchInputs& inputs, const DecodeProblem& problem) {
  using enum ops::BankAlgorithm;
  std::vector<BenchCase> cases;
  for (const char* preset : {"standard", "bov"}) {
    GPTOptions options = problem.options(value_preset(preset));
    const GPT model = random_model(options, inputs.device());
    const torch::Tensor history = inputs.token_ids(problem.batch * problem.tokens, options.vocab_size)
                                      .view({problem.batch, problem.tokens});
    const auto decoder = [&](ops::BankAlgorithm algorithm) {
      return std::make_shared<Decoder>(
          model, DecoderOptions{.long_window = LongWindow::unlimited, .algorithm = algorithm});
    };
    const auto state = std::make_shared<DecodeState>(state_after(history, *decoder(automatic)));
    const torch::Tensor ids = history.slice(1, problem.tokens - 1);
    const auto add = [&](const std::string& method, ops::BankAlgorithm algorithm) {
      cases.push_back(step_case(method, problem, decoder(algorithm), state, ids));
    };
    if (state->layout().layers.back().need == ValueCacheNeed::own_values) {
      add("V cache", automatic);
    } else {
      add("bov, indirect", indirect);
      add("bov, aggregated", aggregated);
      add("bov, automatic", automatic);
    }
  }
  return cases;
}

}  // namespace

std::vector<BenchGroup> decode_step_benches(const BenchInputs& inputs) {
  std::vector<BenchGroup> groups;
  for (const int64_t batch : {1, 8}) {
    for (const char* windows : {"L", "SSSL"}) {
      for (const int64_t tokens : {2048, 8192, 32768, 131072}) {
        const DecodeProblem problem{"step", windows, tokens, batch};
        const std::vector<int64_t> left = problem.options({}).window_left();
        const int64_t long_layers = std::ranges::count(left, problem.options({}).sequence_length);
        if (long_layers * batch * tokens > kMostPositions) continue;
        groups.push_back(
            {.op = "decode", .problem = problem.text(), .baseline = "V cache", .make = [&inputs, problem] {
               return step_cases(inputs, problem);
             }});
      }
    }
  }
  return groups;
}

}  // namespace bov::experiments
