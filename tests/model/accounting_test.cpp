#include "bov/model/accounting.h"

#include <c10/util/Exception.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "bov/value/presets.h"
#include "support/catch.h"

namespace bov {
namespace {

using enum ValueCombine;
using Catch::Matchers::Contains;

constexpr double kFlops12 = 1.5e18;
constexpr double kFlops24 = 3.91e19;
constexpr int64_t kTokensPerStep12 = 1 << 19;
constexpr int64_t kTokensPerStep24 = 1 << 20;

GPTOptions model(int64_t n_layer, const ValueSpec& value) {
  GPTOptions options;
  options.n_layer = n_layer;
  options.n_embd = 64 * n_layer;
  options.n_head = options.n_kv_head = options.n_embd / 128;
  options.value = value;
  return options;
}

ValueSpec spec(ValueCombine combine,
               const ValueCoefficient& coefficient,
               const std::string& source,
               const TargetLayers& layers = TargetRule::last_third,
               bool shared = false) {
  return {
      .combine = combine, .coefficient = coefficient, .source = source, .layers = layers, .shared = shared};
}

const ValueCoefficient kOne = ValueCoefficient::fixed(1.0);
const ValueCoefficient kHalf = ValueCoefficient::fixed(0.5);
const ValueCoefficient kLearned = ValueCoefficient::learned();
const ValueCoefficient kGated = ValueCoefficient::gated();

/// One line of the published accounting.
struct Published {
  std::string variant;
  ValueSpec value;
  int64_t parameters;
  int64_t flops_per_token;
  int64_t steps;
  int64_t banks = 0;
};

const std::vector<Published>& published_12_layers() {
  static const ValueSpec gated_third = spec(add, kGated, "bank");
  static const ValueSpec shared = spec(replace, kLearned, "bank", TargetRule::last_third, true);
  static const std::vector<Published> rows{
      {"gpt_base", {}, 135266329, 759693312, 3766},
      {"v_scale_learn", spec(replace, kLearned, "stream"), 135266333, 759693312, 3766},
      {"v_from_x0_learn", spec(replace, kLearned, "embedding"), 135266333, 759693312, 3766},
      {"v_from_x0", spec(replace, kOne, "embedding"), 135266329, 759693312, 3766},
      {"v_from_x0_learn_every2", spec(replace, kLearned, "embedding", TargetRule::every_other), 135266335,
       759693312, 3766},
      {"v_from_v1", spec(replace, kOne, "first_layer"), 135266329, 745537536, 3838},
      {"v_from_v1_learn", spec(replace, kLearned, "first_layer"), 135266333, 745537536, 3838},
      {"v_from_v1_learn_every2", spec(replace, kLearned, "first_layer", TargetRule::every_other), 135266335,
       738459648, 3874},
      {"v_from_v1_every_layer", value_preset("svformer"), 135266329, 720764928, 3969},
      {"add_init_v", spec(add, kHalf, "first_layer"), 135266329, 759693312, 3766},
      {"add_init_v_learn", value_preset("add_first_layer"), 135266337, 759693312, 3766},
      {"add_init_res_v", spec(add, kHalf, "embedding"), 135266329, 773849088, 3697},
      {"add_init_res_v_learn", value_preset("add_embedding"), 135266337, 773849088, 3697},
      {"bov", value_preset("bov"), 235929629, 745537536, 3838, 100663296},
      {"no coefficient", spec(replace, kOne, "bank"), 235929625, 745537536, 3838, 100663296},
      {"shared table", shared, 160432157, 745537536, 3838, 25165824},
      {"bov every2", spec(replace, kLearned, "bank", TargetRule::every_other), 286261279, 738459648, 3874,
       150994944},
      {"bov second half", spec(replace, kLearned, "bank", TargetRule::second_half), 286261279, 738459648,
       3874, 150994944},
      {"bov last two thirds", spec(replace, kLearned, "bank", TargetRule::last_two_thirds), 336592929,
       731381760, 3912, 201326592},
      {"bov every layer", spec(replace, kLearned, "bank", TargetRule::every), 437256229, 717225984, 3989,
       301989888},
      {"add_init_value_emb_learn", value_preset("bov_add"), 235929633, 759693312, 3766, 100663296},
      {"nanogpt third", gated_third, 235929913, 759695040, 3766, 100663296},
      {"nanogpt every2", value_preset("value_embedding_gated"), 286261705, 759695904, 3766, 150994944},
  };
  return rows;
}

const std::vector<Published>& published_24_layers() {
  static const std::vector<Published> rows{
      {"gpt_base", {}, 780140569, 4775215104, 7809},
      {"v_from_x0_learn", value_preset("replace_embedding"), 780140577, 4775215104, 7809},
      {"v_from_v1_learn", value_preset("replace_first_layer"), 780140577, 4661968896, 7998},
      {"v_from_v1_every_layer", value_preset("svformer"), 780140569, 4449632256, 8380},
      {"bov", value_preset("bov"), 1182793761, 4661968896, 7998, 402653184},
      {"nanogpt every2", value_preset("value_embedding_gated"), 1384122073, 4775225472, 7809, 603979776},
      {"bov every2", spec(replace, kLearned, "bank", TargetRule::every_other), 1384120357, 4605345792, 8097,
       603979776},
      {"bov last two thirds", spec(replace, kLearned, "bank", TargetRule::last_two_thirds), 1585446953,
       4548722688, 8198, 805306368},
      {"bov every layer", spec(replace, kLearned, "bank", TargetRule::every), 1988100145, 4435476480, 8407,
       1207959552},
  };
  return rows;
}

void check_published(const Published& row, const GPTOptions& options, double flops, int64_t tokens_per_step) {
  INFO(options.n_layer << " layers, " << row.variant);
  const ParameterCounts counts = count_parameters(options);
  CHECK(counts.total_as_published() == row.parameters);
  CHECK(counts.banks == row.banks);
  CHECK(flops_per_token(options) == row.flops_per_token);
  CHECK(steps_for_flops(flops, flops_per_token(options), tokens_per_step) == row.steps);
}

/// Asserts that `call` throws a c10::Error whose message contains `text`.
void check_error(const std::function<void()>& call, const std::string& text) {
  try {
    call();
  } catch (const c10::Error& error) {
    CHECK_THAT(error.what_without_backtrace(), Contains(text));
    return;
  }
  FAIL("no error; expected one that says: " << text);
}

void check_invalid(const std::function<void(GPTOptions&)>& spoil, const std::string& text) {
  GPTOptions options;
  spoil(options);
  check_error([&] { options.validate(); }, text);
}

}  // namespace

TEST_CASE("published parameters, FLOPs and steps at 12 layers") {
  for (const auto& row : published_12_layers()) {
    check_published(row, model(12, row.value), kFlops12, kTokensPerStep12);
  }
}

TEST_CASE("published parameters, FLOPs and steps at 24 layers") {
  for (const auto& row : published_24_layers()) {
    check_published(row, model(24, row.value), kFlops24, kTokensPerStep24);
  }
}

TEST_CASE("published tokens and tokens per scaling parameter") {
  struct Row {
    int64_t n_layer;
    ValueSpec value;
    int64_t tokens;
    double ratio;
  };
  const std::vector<Row> rows{
      {12, {}, 1974468608, 17.93},
      {12, value_preset("replace_first_layer"), 2012217344, 18.28},
      {12, spec(replace, kLearned, "first_layer", TargetRule::every_other), 2031091712, 18.45},
      {12, value_preset("svformer"), 2080899072, 18.90},
      {12, value_preset("add_embedding"), 1938292736, 17.60},
      {12, value_preset("bov"), 2012217344, 18.28},
      {12, spec(replace, kLearned, "bank", TargetRule::last_two_thirds), 2051014656, 18.63},
      {12, spec(replace, kLearned, "bank", TargetRule::every), 2091384832, 19.00},
      {12, value_preset("value_embedding_gated"), 1974468608, 17.93},
      {24, {}, 8188329984, 11.22},
      {24, value_preset("bov"), 8386510848, 11.49},
      {24, value_preset("svformer"), 8787066880, 12.04},
  };
  for (const auto& row : rows) {
    INFO(row.n_layer << " layers, source " << row.value.source);
    const GPTOptions options = model(row.n_layer, row.value);
    const int64_t tokens_per_step = row.n_layer == 12 ? kTokensPerStep12 : kTokensPerStep24;
    const double flops = row.n_layer == 12 ? kFlops12 : kFlops24;
    const int64_t tokens =
        tokens_per_step * steps_for_flops(flops, flops_per_token(options), tokens_per_step);
    CHECK(tokens == row.tokens);
    const double ratio =
        static_cast<double>(tokens) / static_cast<double>(count_parameters(options).scaling_as_published());
    // The published ratios have two decimals.
    CHECK(std::abs(ratio - row.ratio) <= 0.005 + 1e-9);
  }
  CHECK(count_parameters(model(12, {})).scaling_as_published() == 110100480);
  CHECK(count_parameters(model(24, {})).scaling_as_published() == 729808896);
}

TEST_CASE("allocated parameters leave out the dead projections and an absent smear") {
  GPTOptions options = model(12, value_preset("bov"));
  options.smear = false;
  const ParameterCounts counts = count_parameters(options);
  CHECK(counts.embedding == 32768 * 768);
  CHECK(counts.head == 32768 * 768);
  CHECK(counts.matrices == 12 * 12 * 768 * 768 - 4 * 768 * 768);
  CHECK(counts.dead == 4 * 768 * 768);
  CHECK(counts.coefficients == 4);
  CHECK(counts.smear == 0);
  CHECK(counts.total() == 235929629 - 4 * 768 * 768 - 25);
  CHECK(counts.total_as_published() == 235929629);
}

TEST_CASE("grouped keys and values shrink projections, tables and gates") {
  GPTOptions options = model(12, value_preset("value_embedding_gated"));
  options.n_kv_head = 2;
  const ParameterCounts counts = count_parameters(options);
  CHECK(counts.matrices == 12 * (2 * 768 * 768 + 2 * 256 * 768 + 8 * 768 * 768) + 6 * 2 * 12);
  CHECK(counts.banks == 6 * 32768 * 256);
}

TEST_CASE("the additive embedding form executes one projection, a gated one two") {
  const int64_t baseline = flops_per_token(model(12, {}));
  const GPTOptions scalar = model(12, value_preset("add_embedding"));
  CHECK(flops_per_token(scalar) == baseline + 6 * 4 * 768 * 768);
  CHECK(executed_flops_per_token(scalar) == baseline);
  const GPTOptions gated = model(12, spec(add, kGated, "embedding"));
  const int64_t gates = 6 * 4 * 6 * 12;
  CHECK(executed_flops_per_token(gated) == baseline + 6 * 4 * 768 * 768 + gates);
  const GPTOptions heads = model(12, spec(add, ValueCoefficient::learned_per_head(), "embedding"));
  CHECK(executed_flops_per_token(heads) == baseline + 6 * 4 * 768 * 768);
  const GPTOptions bank = model(12, value_preset("bov"));
  CHECK(executed_flops_per_token(bank) == flops_per_token(bank));
}

TEST_CASE("coefficients of each head count once a kv head and cost no FLOPs") {
  const auto per_head = ValueCoefficient::learned_per_head();
  const GPTOptions replaced = model(12, spec(ValueCombine::replace, per_head, "bank"));
  CHECK(count_parameters(replaced).coefficients == 4 * 6);
  CHECK(flops_per_token(replaced) == flops_per_token(model(12, value_preset("bov"))));
  GPTOptions added = model(12, spec(add, per_head, "bank"));
  added.n_kv_head = 2;
  CHECK(count_parameters(added).coefficients == 4 * 2 * 2);
}

TEST_CASE("steps round half to even and are never zero") {
  CHECK(steps_for_flops(25, 1, 10) == 2);
  CHECK(steps_for_flops(35, 1, 10) == 4);
  CHECK(steps_for_flops(36, 1, 10) == 4);
  CHECK(steps_for_flops(1, 1, 10) == 1);
  check_error([] { steps_for_flops(0, 1, 10); }, "flops is 0; expected a positive number");
  check_error([] { steps_for_flops(1e300, 1, 10); }, "1e+299 steps; expected at most 2^53");
  check_error([] { steps_for_flops(1, 0, 10); }, "flops_per_token is 0");
}

TEST_CASE("published batch scaling") {
  for (const std::string preset : {"standard", "bov", "svformer", "value_embedding_gated"}) {
    INFO(preset);
    const BatchScaling small = published_batch_scaling(model(12, value_preset(preset)));
    CHECK(small.tokens_per_step == 1 << 19);
    CHECK(small.learning_rate == 1.0);
    CHECK(small.weight_decay == 0.28);
    const BatchScaling large = published_batch_scaling(model(24, value_preset(preset)));
    CHECK(large.tokens_per_step == 1 << 20);
    CHECK(large.learning_rate == Approx(1.41421).epsilon(1e-5));
    // Published with five digits; the ratio differs in the 8th between variants.
    CHECK(large.weight_decay == Approx(0.059738).epsilon(1e-5));
  }
  const GPTOptions listed = model(24, spec(replace, kLearned, "bank", std::vector<int64_t>{20, 23}));
  CHECK(published_batch_scaling(listed).tokens_per_step == 1 << 20);
}

TEST_CASE("windows of the published model") {
  const std::vector<int64_t> expected{512, 512, 512, 2048, 512, 512, 512, 2048, 512, 512, 512, 2048};
  CHECK(model(12, {}).window_left() == expected);
  GPTOptions options = model(12, {});
  options.n_layer = 3;
  options.sequence_length = 144;
  options.window_pattern = "SL";
  CHECK(options.window_left() == std::vector<int64_t>{128, 144, 144});
  options.n_layer = 2;
  options.sequence_length = 513;
  options.window_pattern = "S";
  CHECK(options.window_left() == std::vector<int64_t>{256, 513});
  // A window never reaches beyond the sequence in the FLOPs.
  options.n_layer = 1;
  options.sequence_length = 64;
  const int64_t weights = 12 * 768 * 768 + 32768 * 768;
  CHECK(flops_per_token(options) == 6 * weights + 12 * 768 * 64);
}

TEST_CASE("memory of weights, gradients and optimizer") {
  GPTOptions options = model(12, value_preset("bov"));
  options.table_dtype = torch::kBFloat16;
  options.compute_dtype = torch::kBFloat16;
  const MemoryEstimate memory = estimate_memory(options, 16);
  const int64_t tables = 5 * 32768 * 768;
  const int64_t matrices = (12 * 12 - 4) * 768 * 768;
  const int64_t adam = 32768 * 768 + 4 + 25;
  CHECK(memory.weights == 2 * tables + 4 * (matrices + adam));
  CHECK(memory.gradients == memory.weights);
  // One second moment a row: query, key, output and the eight live values 768 each, up and down 3072 each.
  const int64_t second_moments = 768 * (3 * 12 + 8) + 12 * 2 * 3072;
  CHECK(memory.optimizer == 4 * tables + 8 * adam + 4 * (matrices + second_moments));
  CHECK(memory.activations > 0);
  CHECK(estimate_memory(options, 32).activations == 2 * memory.activations);
  check_error([&] { estimate_memory(options, 0); }, "micro_batch is 0; expected 1 or more");
}

TEST_CASE("memory of activations grows by what a learning coefficient multiplies") {
  const int64_t batch = 3;
  const auto activations = [&](const ValueSpec& value) {
    return estimate_memory(model(12, value), batch).activations;
  };
  const int64_t baseline = activations({});
  // Twelve layers of 18·C kept for attention, its norm and the MLP, and 4·C around them; C = 768 in float32.
  CHECK(baseline == batch * 2048 * (12 * 18 + 4) * 768 * 4);
  const int64_t values_of_targets = batch * 2048 * 4 * 768 * 4;
  CHECK(activations(spec(replace, kOne, "bank")) == baseline);
  CHECK(activations(value_preset("bov")) == baseline + values_of_targets);
  CHECK(activations(value_preset("bov_add")) == baseline + 2 * values_of_targets);
  CHECK(activations(spec(add, kGated, "bank")) == baseline + values_of_targets);
  CHECK(activations(spec(add, kHalf, "bank")) == baseline);
}

TEST_CASE("memory of the caches") {
  const int64_t position = 768 * 4;
  const int64_t reach_short = 513;
  const int64_t reach_long = 2048;
  const int64_t keys = position * (9 * reach_short + 3 * reach_long);
  const int64_t last_third = position * (3 * reach_short + reach_long);
  struct Row {
    ValueSpec value;
    int64_t cached;
    int64_t saved;
  };
  // V1 is kept once for each window that reads it, and a decoder allocates what is counted here.
  const std::vector<Row> rows{
      {{}, keys, 0},
      {value_preset("bov"), keys - last_third, last_third},
      {value_preset("bov_add"), keys, 0},
      {value_preset("replace_embedding"), keys, 0},
      {value_preset("svformer"), position * (reach_short + reach_long), 0},
      {value_preset("replace_first_layer"), keys - last_third + position * reach_long, 0},
      {spec(replace, kGated, "bank"), keys, 0},
  };
  for (const auto& row : rows) {
    INFO(to_string(row.value.combine) << " " << to_string(row.value.coefficient) << " " << row.value.source);
    const MemoryEstimate memory = estimate_memory(model(12, row.value), 1);
    CHECK(memory.key_cache == keys);
    CHECK(memory.value_cache == row.cached);
    CHECK(memory.value_cache_saved == row.saved);
  }
}

TEST_CASE("impossible options are refused by name") {
  CHECK_NOTHROW(GPTOptions().validate());
  check_invalid([](auto& o) { o.n_layer = 0; }, "n_layer is 0; expected 1 or more");
  check_invalid([](auto& o) { o.n_embd = int64_t{1} << 62; },
                "n_embd is 4611686018427387904; expected at most 1048576");
  check_invalid([](auto& o) { o.sequence_length = -1; }, "sequence_length is -1; expected 1 or more");
  check_invalid([](auto& o) { o.vocab_size = 0; }, "vocab_size is 0");
  check_invalid([](auto& o) { o.n_head = 0; }, "n_head is 0");
  check_invalid([](auto& o) { o.n_kv_head = 0; }, "n_kv_head is 0");
  check_invalid([](auto& o) { o.n_embd = 0; }, "n_embd is 0");
  check_invalid([](auto& o) { o.n_head = 5; }, "n_embd is 768; expected a multiple of n_head = 5");
  check_invalid([](auto& o) { o.n_kv_head = 4; }, "n_kv_head is 4; expected a divisor of n_head = 6");
  check_invalid([](auto& o) { o.n_embd = 6 * 31; }, "n_embd / n_head is 31; expected an even head width");
  check_invalid([](auto& o) { o.window_pattern = ""; }, "window_pattern is \"\"; expected one or more of");
  check_invalid([](auto& o) { o.window_pattern = "SXL"; }, "window_pattern is \"SXL\"");
  check_invalid([](auto& o) { o.rotary_base = 0; }, "rotary_base is 0; expected a positive number");
  check_invalid([](auto& o) { o.qk_scale = NAN; }, "qk_scale is nan; expected a positive number");
  check_invalid([](auto& o) { o.logit_softcap = -1; },
                "logit_softcap is -1; expected a positive number, or 0");
  check_invalid([](auto& o) { o.compute_dtype = torch::kInt64; }, "compute_dtype is Long; expected float32");
  check_invalid(
      [](auto& o) {
        o.n_embd = 16;
        o.n_head = o.n_kv_head = 2;
      },
      "n_embd is 16; expected at least 24 with smear");
  check_invalid(
      [](auto& o) {
        o.n_embd = 8;
        o.n_head = o.n_kv_head = 2;
        o.smear = false;
        o.value = value_preset("value_embedding_gated");
      },
      "n_embd is 8; expected at least 12 with coefficient: gated");
  check_invalid([](auto& o) { o.value.source = "magic"; }, "'magic' is unknown; expected one of");
  check_invalid([](auto& o) { o.value.layers = std::vector<int64_t>{}; }, "leaves no layer");
  check_invalid([](auto& o) { o.value = spec(replace, kOne, "first_layer", std::vector<int64_t>{0}); },
                "layer 0");
  check_invalid([](auto& o) { o.value = spec(replace, kOne, "bank", std::vector<int64_t>{12}); },
                "12 is no layer");
}

}  // namespace bov
