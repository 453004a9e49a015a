#include <algorithm>
#include <cmath>
#include <set>

#include "bov/model/accounting.h"
#include "experiments/config/grid_config.h"
#include "experiments/config/run_options.h"
#include "experiments/config/yaml_config.h"
#include "support/catch.h"

// Each control of the paper's comparisons can be said in a row's YAML, and does what it says.
namespace bov::experiments {
namespace {

const GridConfig& controls() {
  static const GridConfig grid =
      load_grid_config(std::filesystem::path(BOV_CONFIG_DIR) / "paper_135m/controls.yaml");
  return grid;
}

const RunConfig& row(const std::string& name) {
  const auto found =
      std::ranges::find_if(controls().rows, [&name](const RunConfig& config) { return config.name == name; });
  INFO(name);
  REQUIRE(found != controls().rows.end());
  return *found;
}

ParameterCounts parameters(const RunConfig& config) {
  return count_parameters(to_gpt_options(config, c10::DeviceType::CPU));
}

}  // namespace

TEST_CASE("a control differs from its row in what its name says alone") {
  const auto difference = [](const std::string& name, const std::string& from, auto undo) {
    RunConfig undone = row(name);
    undo(undone);
    return first_difference(row(from), undone);
  };
  CHECK(difference("t1_13_equal_rates", "t1_13_add_embedding_learned", [](RunConfig& config) {
          const OptimizerConfig& rates = config.optimizer;
          CHECK(rates.alpha_lr_ratio == 1);
          CHECK(rates.alpha_beta1 == rates.scalar_beta1);
          CHECK(rates.alpha_weight_decay == 0);
          config.optimizer = OptimizerConfig{};
        }) == "");
  CHECK(difference("t1_13_no_decay", "t1_13_add_embedding_learned", [](RunConfig& config) {
          CHECK(config.optimizer.alpha_weight_decay == 0);
          config.optimizer = OptimizerConfig{};
        }) == "");
  for (const auto& [name, from] : {std::pair{"standard_no_smear", "t1_01_standard"},
                                   {"t1_09_no_smear", "t1_09_replace_embedding_learned"},
                                   {"bov_no_smear", "bov"}}) {
    CHECK(difference(name, from, [](RunConfig& config) {
            CHECK_FALSE(config.model.smear);
            config.model.smear = true;
          }) == "");
  }
  CHECK(difference("bov_equal_tokens", "bov", [](RunConfig& config) {
          CHECK(config.budget.tokens);
          config.budget = row("bov").budget;
        }) == "");
  CHECK(difference("standard_equal_parameters", "t1_01_standard", [](RunConfig& config) {
          config.model.n_embd = 768;
          config.model.n_head = config.model.n_kv_head = 6;
        }) == "");
}

TEST_CASE("equal tokens and equal parameters are equal") {
  CHECK(resolve_steps(row("bov_equal_tokens")) == resolve_steps(row("t1_01_standard")));
  CHECK(resolve_steps(row("bov")) != resolve_steps(row("t1_01_standard")));
  const auto wide = static_cast<double>(parameters(row("standard_equal_parameters")).total());
  const auto bov = static_cast<double>(parameters(row("bov")).total());
  CHECK(std::abs(wide / bov - 1) < 0.01);
}

TEST_CASE("no control passes for a row of the paper, and all are different runs") {
  std::set<std::string> hashes;
  int64_t published = 0;
  for (const RunConfig& config : controls().rows) {
    hashes.insert(config_hash(config));
    published += config.paper.row.empty() ? 0 : 1;
  }
  CHECK(hashes.size() == controls().rows.size());
  CHECK(published == 4);
}

TEST_CASE("a row with one coefficient a head") {
  CHECK(row("bov_learned_per_head").value.coefficient == ValueCoefficient::learned_per_head());
  CHECK(parameters(row("bov_learned_per_head")).coefficients == 4 * 6);
}

}  // namespace bov::experiments
