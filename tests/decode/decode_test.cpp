#include <torch/types.h>

#include <map>
#include <string>
#include <type_traits>

#include "bov/decode/cached_attention.h"
#include "bov/decode/decoder.h"
#include "bov/model/gpt.h"
#include "bov/value/presets.h"
#include "decode/tiny_model.h"
#include "support/catch.h"
#include "support/tensor_compare.h"

namespace bov {
namespace {

using testing::random_ids;
using testing::random_model;
using testing::relative_error;
using testing::tiny_options;

/// Logits of `ids` [B, T] in passes of the given lengths, which make T together.
torch::Tensor decode(Decoder& decoder,
                     const torch::Tensor& ids,
                     const std::vector<int64_t>& chunks,
                     DecodeState& state) {
  std::vector<torch::Tensor> logits;
  int64_t start = 0;
  for (const int64_t chunk : chunks) {
    logits.push_back(decoder.forward(ids.slice(1, start, start + chunk), state));
    start += chunk;
  }
  REQUIRE(start == ids.size(1));
  return torch::cat(logits, 1);
}

torch::Tensor full_logits(GPT& model, const torch::Tensor& ids) {
  const torch::NoGradGuard no_grad;
  return model->forward(ids);
}

/// The points of the axes that are possible, two rules of target layers with one coefficient alone: all presets and all
/// rows of experiments/configs/rows are among them.
std::vector<ValueSpec> all_specs() {
  std::vector<ValueSpec> specs;
  for (const auto combine : {ValueCombine::replace, ValueCombine::add}) {
    for (const auto& coefficient :
         {ValueCoefficient::fixed(0.5), ValueCoefficient::fixed(1), ValueCoefficient::learned(),
          ValueCoefficient::learned_per_head(), ValueCoefficient::gated()}) {
      for (const std::string& source : value_source_names()) {
        for (const auto rule : {TargetRule::last_third, TargetRule::every_other, TargetRule::every,
                                TargetRule::second_half, TargetRule::last_two_thirds}) {
          const bool only_learned = rule == TargetRule::second_half || rule == TargetRule::last_two_thirds;
          if (only_learned && coefficient != ValueCoefficient::learned()) continue;
          for (const bool shared : {false, true}) {
            const bool has_table = value_source_info(source).has_table;
            if ((shared && !has_table) || (combine == ValueCombine::add && source == "stream")) continue;
            specs.push_back({combine, coefficient, source, rule, shared});
          }
        }
      }
    }
  }
  return specs;
}

std::string describe(const ValueSpec& spec, bool smear) {
  return to_string(spec.combine) + " " + to_string(spec.coefficient) + " " + spec.source + " " +
         to_string(spec.layers) + (spec.shared ? " shared" : "") + (smear ? " smear" : "");
}

/// Sums of some hundred terms in another order through six layers: unit roundoffs of 1e-16 and 6e-8.
double logit_error(torch::Dtype dtype) {
  return dtype == torch::kFloat64 ? 1e-11 : 2e-5;
}

void check_every_variant(torch::Dtype dtype) {
  const std::vector<ValueSpec> specs = all_specs();
  // 5 coefficients and 3 rules, or one and 2, and 5 sources to replace V (a shared bank is one) or 4 to add to it.
  CHECK(specs.size() == (5 * 3 + 2) * (5 + 4));
  // The windows reach 128 and 130 positions back, so both have wrapped before the last chunks.
  const torch::Tensor ids = random_ids(1, 290);
  for (const ValueSpec& spec : specs) {
    for (const bool smear : {false, true}) {
      GPTOptions options = tiny_options(dtype);
      options.value = spec;
      options.smear = smear;
      GPT model = random_model(options);
      Decoder decoder(model);
      DecodeState state = decoder.start();
      INFO(describe(spec, smear));
      CHECK(relative_error(decode(decoder, ids, {100, 1, 1, 40, 1, 140, 1, 6}, state),
                           full_logits(model, ids)) < logit_error(dtype));
    }
  }
}

TEST_CASE("cached logits equal the full forward pass for every value variant, in float64") {
  check_every_variant(torch::kFloat64);
}

TEST_CASE("cached logits equal the full forward pass for every value variant, in float32") {
  check_every_variant(torch::kFloat32);
}

TEST_CASE("any chunking of a prompt, any number of kv heads and any windows give the same logits") {
  const auto dtype = GENERATE(torch::kFloat64, torch::kFloat32);
  const torch::Tensor ids = random_ids(2, 280);
  const std::vector<int64_t> by_sevens(40, 7), one_by_one(280, 1);
  for (const auto& [kv_heads, pattern] :
       std::vector<std::pair<int64_t, std::string>>{{1, "SSSL"}, {2, "L"}, {4, "S"}}) {
    GPTOptions options = tiny_options(dtype);
    options.n_kv_head = kv_heads;
    options.window_pattern = pattern;
    options.value = value_preset("bov");
    GPT model = random_model(options);
    const torch::Tensor expected = full_logits(model, ids);
    for (const auto& chunks : {std::vector<int64_t>{280},
                               {1, 279},
                               {279, 1},
                               {128, 1, 151},
                               {129, 130, 21},
                               by_sevens,
                               one_by_one}) {
      for (const auto algorithm : {ops::BankAlgorithm::indirect, ops::BankAlgorithm::aggregated}) {
        Decoder decoder(model, {.algorithm = algorithm});
        DecodeState state = decoder.start(2);
        INFO(dtype << ", " << kv_heads << " kv heads, windows " << pattern << ", " << chunks.size()
                   << " chunks, the first of " << chunks.front());
        CHECK(relative_error(decode(decoder, ids, chunks, state), expected) < logit_error(dtype));
      }
    }
  }
}

TEST_CASE("sequences of different lengths decode in one batch, and forks and cuts go their own way") {
  const auto dtype = GENERATE(torch::kFloat64, torch::kFloat32);
  for (const char* preset : {"bov", "replace_first_layer", "standard", "bov_add"}) {
    GPTOptions options = tiny_options(dtype);
    options.value = value_preset(preset);
    GPT model = random_model(options);
    Decoder decoder(model);
    const std::vector<int64_t> lengths{3, 200, 127, 1};
    const torch::Tensor ids = random_ids(4, 240);
    std::vector<DecodeState> states;
    for (int64_t b = 0; b < 4; ++b) {
      states.push_back(decoder.start());
      decoder.forward(ids.slice(0, b, b + 1).slice(1, 0, lengths[b]), states.back());
    }
    DecodeState state = DecodeState::join(states);
    CHECK(state.lengths() == lengths);
    const auto next = [&](int64_t done, int64_t tokens) {
      std::vector<torch::Tensor> rows;
      for (int64_t b = 0; b < 4; ++b) {
        rows.push_back(ids[b].slice(0, lengths[b] + done, lengths[b] + done + tokens));
      }
      return torch::stack(rows);
    };
    const torch::Tensor logits =
        torch::cat({decoder.forward(next(0, 1), state), decoder.forward(next(1, 9), state),
                    decoder.forward(next(10, 1), state)},
                   1);
    INFO(preset << ", " << dtype);
    for (int64_t b = 0; b < 4; ++b) {
      const torch::Tensor whole = full_logits(model, ids.slice(0, b, b + 1).slice(1, 0, lengths[b] + 11));
      CHECK(relative_error(logits[b], whole[0].slice(0, lengths[b])) < logit_error(dtype));
      CHECK(torch::equal(state.token_ids(b), ids[b].slice(0, 0, lengths[b] + 11)));
    }

    DecodeState forked = state.select({1, 0, 0});
    const torch::Tensor other = random_ids(3, 5);
    const torch::Tensor forked_logits = decoder.forward(other, forked);
    CHECK(forked.lengths() == std::vector<int64_t>{216, 19, 19});
    CHECK(state.lengths() == std::vector<int64_t>{14, 211, 138, 12});
    const std::vector<int64_t> sources{1, 0, 0};
    for (int64_t row = 0; row < 3; ++row) {
      const torch::Tensor history = ids[sources[row]].slice(0, 0, lengths[sources[row]] + 11);
      const torch::Tensor whole = full_logits(model, torch::cat({history, other[row]}).unsqueeze(0));
      CHECK(relative_error(forked_logits[row], whole[0].slice(0, -5)) < logit_error(dtype));
    }
    // The fork left the original as it was, and cut sequences go on from the cut.
    state.truncate(0, 5);
    state.truncate(1, 210);
    const torch::Tensor sevens = torch::full({4, 1}, 7, torch::kInt64);
    const torch::Tensor cut = decoder.forward(sevens, state);
    const std::vector<int64_t> cut_lengths{5, 210, 138};
    for (int64_t row = 0; row < 3; ++row) {
      const torch::Tensor history = ids[row].slice(0, 0, cut_lengths[row]);
      const torch::Tensor whole = full_logits(model, torch::cat({history, sevens[row]}).unsqueeze(0));
      CHECK(relative_error(cut[row][0], whole[0][-1]) < logit_error(dtype));
    }
  }
}

TEST_CASE("states move, and only clones are alike") {
  STATIC_REQUIRE(!std::is_copy_constructible_v<DecodeState>);
  STATIC_REQUIRE(!std::is_copy_assignable_v<DecodeState>);
  GPT model = random_model(tiny_options(torch::kFloat64));
  Decoder decoder(model);
  DecodeState state = decoder.start();
  const torch::Tensor ids = random_ids(1, 40), other = random_ids(1, 40);
  decoder.forward(ids.slice(1, 0, 30), state);
  DecodeState clone = state.clone();
  decoder.forward(other.slice(1, 30), clone);
  DecodeState moved = std::move(state);
  CHECK(relative_error(decoder.forward(ids.slice(1, 30), moved), full_logits(model, ids).slice(1, 30)) <
        1e-11);
  CHECK(torch::equal(moved.token_ids(0), ids[0]));
  CHECK(torch::equal(clone.token_ids(0), torch::cat({ids.slice(1, 0, 30), other.slice(1, 30)}, 1)[0]));
}

TEST_CASE("a state takes in tokens that were read elsewhere") {
  for (const char* preset : {"bov", "standard"}) {
    GPTOptions options = tiny_options(torch::kFloat64);
    options.n_layer = 1;
    options.value = value_preset(preset);
    GPT model = random_model(options);
    const torch::NoGradGuard no_grad;
    const torch::Tensor ids = random_ids(2, 150), past = ids.slice(1, 0, 140);
    // One layer's keys and values do not depend on attention.
    std::map<CacheKey::Kind, torch::Tensor> rows{{CacheKey::Kind::row_numbers, past}};
    const torch::Tensor x = model->smear->forward(model->embed(past));
    const RotaryTables rotary =
        rotary_tables(torch::arange(140), options.head_dim(), options.rotary_base, options.compute_dtype);
    ValueInputs inputs;
    inputs.token_ids = past;
    model->run_blocks(x, inputs, [&](int64_t, CausalSelfAttentionImpl& attention, ValueInputs& layer) {
      rows[CacheKey::Kind::keys] = attention.keys(layer.hidden, rotary);
      if (std::string(preset) == "standard") rows[CacheKey::Kind::values] = attention.values(layer);
      return torch::zeros_like(layer.hidden);
    });
    Decoder decoder(model);
    DecodeState state = decoder.start(2);
    for (const auto& [start, end] : std::vector<std::pair<int64_t, int64_t>>{{0, 90}, {90, 91}, {91, 140}}) {
      state.append(past.slice(1, start, end),
                   [&](const CacheKey& key) { return rows.at(key.kind).slice(1, start, end); });
    }
    INFO(preset);
    CHECK(state.lengths() == std::vector<int64_t>{140, 140});
    CHECK(state.bytes() == cache_bytes(decoder.layout(), 140, 2));
    CHECK(relative_error(decoder.forward(ids.slice(1, 140), state), full_logits(model, ids).slice(1, 140)) <
          1e-11);
    CHECK_THROWS_WITH(state.append(past, [&](const CacheKey&) { return past.slice(1, 1); }),
                      Catch::Contains("; expected [2, 140"));
    CHECK_THROWS_WITH(
        state.append(past - 70000, [&](const CacheKey&) { return past; }),
        Catch::Contains("DecodeState::append: token id -") && Catch::Contains("is outside the vocabulary"));
    CHECK_THROWS_WITH(state.append(past.to(torch::kInt32), [&](const CacheKey&) { return past; }),
                      Catch::Contains("must be int64"));
    CHECK_THROWS_WITH(state.append(past[0], [&](const CacheKey&) { return past; }),
                      Catch::Contains("token_ids must be [2, 1 or more]"));
    CHECK(state.lengths() == std::vector<int64_t>{150, 150});
  }
}

TEST_CASE("ids up to 65535 take two bytes") {
  GPTOptions options = tiny_options(torch::kFloat64);
  options.n_layer = 3;
  options.vocab_size = 1 << 16;
  options.value = value_preset("bov");
  GPT model = random_model(options);
  const torch::Tensor ids = torch::randint(1 << 15, 1 << 16, {2, 150}, torch::kInt64);
  for (const auto algorithm : {ops::BankAlgorithm::indirect, ops::BankAlgorithm::aggregated}) {
    Decoder decoder(model, {.algorithm = algorithm});
    DecodeState state = decoder.start(2);
    // The window of 129 positions wraps in the third pass, and a pass of several tokens then sees a copy.
    CHECK(relative_error(decode(decoder, ids, {100, 1, 40, 1, 8}, state), full_logits(model, ids)) < 1e-11);
    CHECK(torch::equal(state.token_ids(1), ids[1]));
    CHECK(torch::equal(state.select({1}).token_ids(0), ids[1]));
    // History, and the row numbers of the bank's long window of 131 positions.
    CHECK(state.bytes().token_ids == 2 * 2 * (256 + 131));
  }
}

TEST_CASE("a state says what it cannot do") {
  GPT model = random_model(tiny_options(torch::kFloat32));
  Decoder decoder(model);
  DecodeState state = decoder.start();
  decoder.forward(random_ids(1, 140), state);
  CHECK_THROWS_WITH(state.truncate(0, 138), Catch::Contains("a window of 129 positions has overwritten") &&
                                                Catch::Contains("expected at least 139"));
  CHECK_THROWS_WITH(state.truncate(0, 141), Catch::Contains("at most the 140 tokens"));
  CHECK_THROWS_WITH(state.truncate(1, 0), Catch::Contains("sequence is 1"));
  state.truncate(0, 139);
  CHECK_THROWS_WITH(state.truncate(0, 138), Catch::Contains("has been 140 tokens long"));
  CHECK_THROWS_WITH(state.select({}), Catch::Contains("no sequence is named"));
  CHECK_THROWS_WITH(state.select({1}), Catch::Contains("[0, 1)"));
  CHECK_THROWS_WITH(decoder.forward(random_ids(2, 1), state), Catch::Contains("int64 [1, 1 or more]"));
  CHECK_THROWS_WITH(decoder.forward(random_ids(1, 1).slice(1, 0, 0), state), Catch::Contains("1 or more"));
  CHECK_THROWS_WITH(decoder.forward(torch::full({1, 1}, 50, torch::kInt64), state),
                    Catch::Contains("token id 50 is outside the vocabulary of 50"));
  CHECK(state.lengths() == std::vector<int64_t>{139});
  Decoder unlimited(model, {.long_window = LongWindow::unlimited});
  CHECK_THROWS_WITH(unlimited.forward(random_ids(1, 1), state),
                    Catch::Contains("another model or long_window"));
  std::vector<DecodeState> mixed;
  mixed.push_back(state.clone());
  mixed.push_back(unlimited.start());
  CHECK_THROWS_WITH(DecodeState::join(mixed), Catch::Contains("different models"));
  CHECK_THROWS_WITH(DecodeState::join({}), Catch::Contains("no state"));
  CHECK_THROWS_WITH(decoder.start(-1), Catch::Contains("batch is -1"));
}

TEST_CASE("long windows reach as far as in training, or without limit") {
  GPTOptions options = tiny_options(torch::kFloat64);
  options.value = value_preset("bov");
  options.window_pattern = "L";
  GPT model = random_model(options);
  options.sequence_length = 1000;
  GPT wide = random_model(options);
  const torch::Tensor ids = random_ids(1, 400);
  Decoder unlimited(model, {.long_window = LongWindow::unlimited});
  DecodeState state = unlimited.start();
  CHECK(relative_error(decode(unlimited, ids, {300, 1, 98, 1}, state), full_logits(wide, ids)) < 1e-11);
  CHECK(relative_error(full_logits(model, ids), full_logits(wide, ids)) > 1e-3);
}

TEST_CASE("at a million tokens attention sees what it sees at the start") {
  // Rotations are relative, so a window far from the start gives the logits of the same tokens at the start.
  GPTOptions options = tiny_options(torch::kFloat64);
  options.n_layer = 1;
  options.n_embd = 8;
  options.n_head = options.n_kv_head = 1;
  options.smear = false;
  options.value = value_preset("bov");
  GPT model = random_model(options);
  Decoder decoder(model);
  DecodeState state = decoder.start();
  constexpr int64_t kTokens = 1'000'000, kChunk = 50'000;
  const torch::Tensor ids = random_ids(1, kTokens + 1);
  for (int64_t start = 0; start < kTokens; start += kChunk) {
    decoder.next_logits(ids.slice(1, start, start + kChunk), state);
  }
  const torch::Tensor last = decoder.next_logits(ids.slice(1, kTokens), state);
  CHECK(state.lengths()[0] == kTokens + 1);
  // One layer of reach 130.
  const torch::Tensor near = full_logits(model, ids.slice(1, kTokens - 130));
  // Angles up to 1e6 with a unit roundoff of 1.1e-16.
  CHECK(relative_error(last, near.select(1, -1)) < 1e-8);
  // Rings hold 131 positions whatever the length; ids take a byte each.
  CHECK(state.bytes() == cache_bytes(decoder.layout(), kTokens + 1, 1));
  CHECK(state.bytes().keys == 131 * 8 * 8);
  CHECK(state.bytes().values == 0);
  CHECK(state.bytes().token_ids == cache_capacity(kTokens + 1, kUnlimitedReach) + 131);
}

TEST_CASE("the bytes of a state are known beforehand, and grow by blocks") {
  CHECK(cache_capacity(0, 1000) == 0);
  CHECK(cache_capacity(1, 1000) == 256);
  CHECK(cache_capacity(256, 1000) == 256);
  CHECK(cache_capacity(257, 1000) == 512);
  CHECK(cache_capacity(1, 129) == 129);
  CHECK(cache_capacity(5000, 129) == 129);
  // At most an eighth, rounded up to 256, more than needed.
  CHECK(cache_capacity(100'000, kUnlimitedReach) <= 100'000 + 100'000 / 8 + 256);
  CHECK(id_dtype(256) == torch::kUInt8);
  CHECK(id_dtype(257) == torch::kUInt16);
  CHECK(id_dtype(65536) == torch::kUInt16);
  CHECK(id_dtype(65537) == torch::kInt32);
  CHECK(id_dtype((int64_t{1} << 31) + 1) == torch::kInt64);
  for (const ValuePreset& preset : value_presets()) {
    for (const auto long_window : {LongWindow::trained, LongWindow::unlimited}) {
      GPTOptions options = tiny_options(torch::kFloat32);
      options.value = preset.spec;
      Decoder decoder(random_model(options), {.long_window = long_window});
      CHECK(decoder.layout() == cache_layout(options, long_window));
      DecodeState state = decoder.start(3);
      INFO(preset.name);
      CHECK(state.bytes().total() == 0);
      int64_t length = 0;
      for (const int64_t chunk : {1, 100, 30, 400, 1}) {
        decoder.next_logits(random_ids(3, chunk), state);
        length += chunk;
        CHECK(state.bytes() == cache_bytes(decoder.layout(), length, 3));
      }
    }
  }
}

TEST_CASE("cached attention checks its shapes and lengths") {
  const torch::Tensor q = torch::zeros({2, 3, 4, 8}), k = torch::zeros({2, 5, 2, 8});
  CHECK_THROWS_WITH(cached_attention(q[0], k, k, {5, 5}, 4), Catch::Contains("[B, Q, H, D]"));
  CHECK_THROWS_WITH(cached_attention(q, k, k, {5}, 4), Catch::Contains("expected 2 lengths in [3, 5]"));
  CHECK_THROWS_WITH(cached_attention(q, k, k, {2, 5}, 4), Catch::Contains("got [2, 5]"));
  CHECK(cached_attention(q, k, k, {3, 5}, 4).sizes() == q.sizes());
}

}  // namespace
}  // namespace bov
