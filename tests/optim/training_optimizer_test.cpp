#include "bov/optim/training_optimizer.h"

#include <cmath>
#include <numbers>

#include "optim/reference_optimizers.h"
#include "support/catch.h"
#include "support/tensor_compare.h"

using namespace bov;
using namespace bov::testing;

namespace {

// ---- A stand-in for the parameters of a GPT: one of each name ----

torch::OrderedDict<std::string, at::Tensor> fake_gpt(torch::Dtype dtype = torch::kFloat,
                                                     torch::Dtype tables = torch::kFloat) {
  torch::manual_seed(11);
  torch::OrderedDict<std::string, at::Tensor> named;
  named.insert("embedding", parameter({17, 8}, tables));
  named.insert("head", parameter({17, 8}, dtype));
  named.insert("smear.gate", parameter({1, 24}, dtype));
  named.insert("smear.lambda", parameter({1}, dtype));
  named.insert("shared_bank.table", parameter({17, 8}, tables));
  for (const std::string block : {"blocks.0.", "blocks.11."}) {
    for (const std::string matrix : {"query", "key", "output", "value.projection"}) {
      named.insert(block + "attention." + matrix, parameter({8, 8}, dtype));
    }
    named.insert(block + "attention.value.gate", parameter({2, 12}, dtype));
    named.insert(block + "attention.value.alpha", parameter({}, dtype));
    named.insert(block + "attention.value.beta", parameter({}, dtype));
    named.insert(block + "attention.value.gamma", parameter({}, dtype));
    named.insert(block + "attention.value.bank.table", parameter({17, 8}, tables));
    named.insert(block + "mlp.up", parameter({32, 8}, dtype));
    named.insert(block + "mlp.down", parameter({8, 32}, dtype));
  }
  return named;
}

TrainingOptimizer fake_optimizer(const torch::OrderedDict<std::string, at::Tensor>& named) {
  return TrainingOptimizer(named, 8, OptimizerRates{}, {.steps = 20, .warmup_steps = 2}, torch::kFloat);
}

/// The gradients of step `it`, the same for each call; α of layer 0 gets its first one at step 3.
void set_gradients(const torch::OrderedDict<std::string, at::Tensor>& named, int64_t it) {
  torch::manual_seed(100 + it);
  for (const auto& item : named) set_gradient(item.value(), 1e-2);
  if (it < 3) named["blocks.0.attention.value.alpha"].mutable_grad().reset();
}

std::map<std::string, at::Tensor> cloned(const std::map<std::string, at::Tensor>& tensors) {
  std::map<std::string, at::Tensor> result;
  for (const auto& [name, tensor] : tensors) result[name] = tensor.clone();
  return result;
}

}  // namespace

TEST_CASE("Schedules reproduce the published step counts") {
  struct Row {
    int64_t steps, warmdown, last_full;
  };
  const Row rows[] = {{3766, 2448, 1318}, {3838, 2495, 1343}, {3697, 2403, 1294}, {3969, 2580, 1389},
                      {3989, 2593, 1396}, {7809, 5076, 2733}, {7998, 5199, 2799}, {8380, 5447, 2933}};
  for (const auto& row : rows) {
    CAPTURE(row.steps);
    const TrainingSchedule schedule{.steps = row.steps};
    CHECK(schedule.warmdown_steps() == row.warmdown);
    CHECK(schedule.learning_rate(row.last_full) == 1.0);
    CHECK(schedule.learning_rate(row.last_full + 1) < 1.0);
    CHECK(schedule.learning_rate(0) == 1.0 / 40);
    CHECK(schedule.learning_rate(38) == 39.0 / 40);
    CHECK(schedule.learning_rate(39) == 1.0);
    const double p = 1.0 / static_cast<double>(row.warmdown);
    CHECK(schedule.learning_rate(row.steps - 1) == Approx(p + (1 - p) * 0.05).epsilon(1e-15));
    CHECK(schedule.learning_rate(row.steps) == 0.05);
  }
  CHECK(TrainingSchedule{.steps = 3766}.learning_rate(3765) == Approx(0.0504).margin(5e-5));
  CHECK(TrainingSchedule{.steps = 7809}.learning_rate(7808) == Approx(0.0502).margin(5e-5));
  // 0.65·N is exactly a half: Python rounds to even, 6.5 to 6 and 19.5 to 20.
  CHECK(TrainingSchedule{.steps = 10}.warmdown_steps() == 6);
  CHECK(TrainingSchedule{.steps = 30}.warmdown_steps() == 20);
}

TEST_CASE("Muon's momentum and weight decay follow their schedules") {
  const TrainingSchedule schedule{.steps = 3838};
  CHECK(schedule.muon_momentum(0) == 0.85);
  CHECK(schedule.muon_momentum(100) == Approx(0.88).epsilon(1e-14));
  CHECK(schedule.muon_momentum(400) == 0.97);
  CHECK(schedule.muon_momentum(1343) == 0.97);
  CHECK(schedule.muon_momentum(1344) == Approx(0.97 - 0.07 / 2495).epsilon(1e-14));
  CHECK(schedule.muon_momentum(3838) == Approx(0.90).epsilon(1e-14));
  CHECK(schedule.muon_weight_decay(0) == 1.0);
  CHECK(schedule.muon_weight_decay(1919) == Approx(0.5).epsilon(1e-14));
  CHECK(schedule.muon_weight_decay(3838) == Approx(0.0).margin(1e-15));
  // In a short run the momentum still warms up while the learning rate falls.
  CHECK(TrainingSchedule{.steps = 20}.muon_momentum(19) == Approx(0.85 + 0.12 * 19 / 400).epsilon(1e-14));
  const TrainingSchedule constant{
      .steps = 5, .warmup_steps = 0, .momentum_warmup_steps = 0, .warmdown_fraction = 0};
  for (int64_t it = 0; it <= 5; ++it) {
    CHECK(constant.learning_rate(it) == 1.0);
    CHECK(constant.muon_momentum(it) == 0.97);
  }
  CHECK_THROWS_WITH(schedule.learning_rate(3839),
                    Catch::Contains("iteration must be in [0, 3838], got 3839"));
  CHECK_THROWS_WITH(schedule.muon_momentum(-1), Catch::Contains("got -1"));
  CHECK_THROWS_WITH(TrainingSchedule{}.validate(), Catch::Contains("steps must be at least 1, got 0"));
  CHECK_THROWS_WITH((TrainingSchedule{.steps = 5, .warmdown_fraction = 1.5}.validate()),
                    Catch::Contains("warmdown_fraction must be in [0, 1], got 1.5"));
}

TEST_CASE("Parameter groups have the published rates at 12 and 24 layers") {
  struct Row {
    ParameterRole role;
    size_t members;
    double rate_12, rate_24, beta1, beta2, decay;
  };
  const Row rows[] = {{ParameterRole::kHead, 1, 0.008, 0.008, 0.8, 0.96, 0.01},
                      {ParameterRole::kEmbedding, 1, 0.3, 0.3, 0.8, 0.995, 0.001},
                      {ParameterRole::kSmear, 2, 0.2, 0.2, 0.8, 0.95, 0.0},
                      {ParameterRole::kAlpha, 2, 0.005, 0.005 * std::sqrt(2.0), 0.8, 0.95, 0.05},
                      {ParameterRole::kCoefficient, 4, 0.5, 0.5 * std::sqrt(2.0), 0.96, 0.95, 0.0},
                      {ParameterRole::kBank, 3, 0.15, 0.15, 0.8, 0.995, 0.01}};
  const auto named = fake_gpt();
  const OptimizerRates rates_24{.weight_decay = 0.059738, .batch_scale = std::sqrt(2.0)};
  const auto groups_12 = published_parameter_groups(named, 768, {});
  const auto groups_24 = published_parameter_groups(named, 1536, rates_24);
  REQUIRE(groups_12.size() == 7);
  for (size_t i = 0; i < 6; ++i) {
    CAPTURE(to_string(rows[i].role));
    CHECK(groups_12[i].role == rows[i].role);
    CHECK(groups_12[i].names.size() == rows[i].members);
    CHECK(groups_12[i].parameters.size() == rows[i].members);
    const auto& options = std::get<AdamWOptions>(groups_12[i].options);
    CHECK(options.lr() == Approx(rows[i].rate_12).epsilon(1e-15));
    CHECK(std::get<AdamWOptions>(groups_24[i].options).lr() == Approx(rows[i].rate_24).epsilon(1e-15));
    CHECK(options.betas() == std::make_tuple(rows[i].beta1, rows[i].beta2));
    CHECK(options.eps() == 1e-10);
    CHECK(options.weight_decay() == rows[i].decay);
  }
  CHECK(groups_12[6].role == ParameterRole::kMatrix);
  CHECK(groups_12[6].names.size() == 14);  // per block: query, key, output, projection, gate, up, down
  const auto& muon_12 = std::get<MuonOptions>(groups_12[6].options);
  const auto& muon_24 = std::get<MuonOptions>(groups_24[6].options);
  CHECK(muon_12.lr() == 0.02);
  CHECK(muon_12.beta2() == 0.9);
  CHECK(muon_12.weight_decay() == 0.28);
  CHECK(muon_24.lr() == Approx(0.02 * std::sqrt(2.0)).epsilon(1e-15));
  CHECK(muon_24.weight_decay() == 0.059738);
  // The width factor off its fixed points: sqrt(768/32).
  const auto narrow = published_parameter_groups(named, 32, {});
  CHECK(std::get<AdamWOptions>(narrow[0].options).lr() == Approx(0.008 * std::sqrt(24.0)).epsilon(1e-14));
  CHECK(std::get<AdamWOptions>(narrow[3].options).lr() == Approx(0.005).epsilon(1e-14));
}

TEST_CASE("The coefficients' rates, betas and decay are values of the config") {
  const auto named = fake_gpt();
  const OptimizerRates rates{
      .scalar = 0.25, .scalar_beta1 = 0.5, .alpha_ratio = 1, .alpha_beta1 = 0.5, .alpha_weight_decay = 0};
  const auto groups = published_parameter_groups(named, 768, rates);
  const auto& alpha = std::get<AdamWOptions>(groups[3].options);
  const auto& beta = std::get<AdamWOptions>(groups[4].options);
  CHECK(alpha.lr() == 0.25);
  CHECK(alpha.lr() == beta.lr());
  CHECK(alpha.betas() == std::make_tuple(0.5, 0.95));
  CHECK(alpha.betas() == beta.betas());
  CHECK(alpha.weight_decay() == 0);
}

TEST_CASE("A parameter without a group is an error that names it") {
  for (const std::string name : {"blocks.0.mlp.gate", "blocks.x.mlp.up", "blocks..mlp.up", "heads",
                                 "blocks.0.mlp.up.bias", "transformer.h.0.attn.c_q.weight", ""}) {
    CHECK_THROWS_WITH(parameter_role(name),
                      Catch::Contains("no optimizer group for parameter '" + name + "'"));
  }
  auto named = fake_gpt();
  named.insert("blocks.0.attention.bias", parameter({3}));
  CHECK_THROWS_WITH(published_parameter_groups(named, 8, {}), Catch::Contains("'blocks.0.attention.bias'"));
}

TEST_CASE("The training optimizer applies the scheduled rates of each role") {
  const auto named = fake_gpt(torch::kDouble, torch::kDouble);
  const OptimizerRates rates;
  TrainingOptimizer optimizer(named, 8, rates, {.steps = 20, .warmup_steps = 2}, torch::kDouble);
  const auto head = named["head"], matrix = named["blocks.0.mlp.up"];
  ReferenceMuon reference(matrix);
  auto scalar = ScalarAdamW{head[0][0].item<double>(), 0, 0};
  for (int64_t it = 0; it < 12; ++it) {
    set_gradients(named, it);
    const double multiplier = TrainingSchedule{.steps = 20, .warmup_steps = 2}.learning_rate(it);
    scalar.step(
        head.grad()[0][0].item<double>(), it + 1,
        AdamWOptions(0.008 * std::sqrt(96.0) * multiplier).betas({0.8, 0.96}).eps(1e-10).weight_decay(0.01));
    reference.step(
        matrix.grad(),
        MuonOptions(0.02 * multiplier)
            .momentum(0.85 + 0.12 * static_cast<double>(it) / 400)
            .weight_decay(0.28 * 0.5 * (1 + std::cos(std::numbers::pi * static_cast<double>(it) / 20))));
    optimizer.step(it);
    optimizer.zero_grad();
    CHECK_FALSE(head.grad().defined());
  }
  CHECK(head[0][0].item<double>() == Approx(scalar.p).epsilon(1e-12));
  CHECK(relative_error(matrix, reference.p) < 1e-11);  // see the Muon reference test
  const auto logged = optimizer.rates(1);
  CHECK(logged.size() == 9);
  CHECK(logged.at("coefficient") == 0.5);
  CHECK(logged.at("muon_momentum") == Approx(0.8503).epsilon(1e-14));
  CHECK(optimizer.learning_rate(ParameterRole::kSmear, 0) == 0.1);
  CHECK_THROWS_WITH(optimizer.step(20), Catch::Contains("iteration must be in [0, 19], got 20"));
}

TEST_CASE("A run that saves and restores the optimizer equals a straight run bit for bit") {
  const auto straight = fake_gpt(torch::kFloat, torch::kBFloat16);
  auto optimizer = fake_optimizer(straight);
  for (int64_t it = 0; it < 8; ++it) {
    set_gradients(straight, it);
    optimizer.step(it);
  }

  const auto resumed = fake_gpt(torch::kFloat, torch::kBFloat16);
  std::map<std::string, at::Tensor> saved;
  {
    auto before = fake_optimizer(resumed);
    for (int64_t it = 0; it < 2; ++it) {
      set_gradients(resumed, it);
      before.step(it);
    }
    saved = cloned(before.state());
  }
  CHECK(saved.at("embedding.step").item<int64_t>() == 2);
  CHECK(saved.at("blocks.0.attention.value.alpha.step").item<int64_t>() == 0);
  CHECK(saved.at("blocks.0.mlp.down.second_moment").sizes() == at::IntArrayRef({1, 32}));
  CHECK(saved.at("shared_bank.table.exp_avg").scalar_type() == torch::kBFloat16);
  auto after = fake_optimizer(resumed);
  after.load_state(saved);
  for (int64_t it = 2; it < 8; ++it) {
    set_gradients(resumed, it);
    after.step(it);
  }

  for (const auto& item : straight) {
    CAPTURE(item.key());
    CHECK(bitwise_equal(item.value(), resumed[item.key()]));
  }
  const auto final_state = optimizer.state(), resumed_state = after.state();
  REQUIRE(final_state.size() == resumed_state.size());
  for (const auto& [name, tensor] : final_state) {
    CAPTURE(name);
    CHECK(bitwise_equal(tensor, resumed_state.at(name)));
  }
}

TEST_CASE("Loading a foreign optimizer state names the first bad entry and changes nothing") {
  const auto named = fake_gpt();
  auto optimizer = fake_optimizer(named);
  set_gradients(named, 5);
  optimizer.step(0);
  const auto good = cloned(optimizer.state());
  const auto refuses = [&](const std::map<std::string, at::Tensor>& bad, const std::string& message) {
    CHECK_THROWS_WITH(optimizer.load_state(bad), Catch::Contains(message));
    for (const auto& [name, tensor] : optimizer.state()) CHECK(bitwise_equal(tensor, good.at(name)));
  };
  // Other values everywhere, so that a partial copy would show.
  auto other = good;
  for (auto& [name, tensor] : other) tensor = tensor + 1;

  auto missing = other;
  missing.erase("head.exp_avg");
  refuses(missing, "'head.exp_avg' is missing");
  auto foreign = other;
  foreign["tail.exp_avg"] = torch::ones({1});
  refuses(foreign, "'tail.exp_avg' belongs to no parameter");
  auto shape = other;
  shape["smear.gate.exp_avg_sq"] = torch::ones({24, 1});
  refuses(shape, "'smear.gate.exp_avg_sq' must be Float of sizes [1, 24], got CPUFloatType of sizes [24, 1]");
  auto dtype = other;
  dtype["blocks.0.mlp.up.momentum_buffer"] = other["blocks.0.mlp.up.momentum_buffer"].to(torch::kDouble);
  refuses(dtype, "'blocks.0.mlp.up.momentum_buffer' must be Float of sizes [32, 8], got CPUDoubleType");
  auto negative = other;
  negative["head.step"] = torch::scalar_tensor(-1, torch::kLong);
  refuses(negative, "'head.step' must be at least 0, got -1");
  auto undefined = other;
  undefined["head.exp_avg"] = at::Tensor();
  refuses(undefined, "'head.exp_avg' must be Float of sizes [17, 8], got nothing");
  optimizer.load_state(other);
  CHECK(optimizer.state().at("head.step").item<int64_t>() == 2);
  CHECK(max_abs_error(optimizer.state().at("head.exp_avg"), other.at("head.exp_avg")) == 0.0);
}
