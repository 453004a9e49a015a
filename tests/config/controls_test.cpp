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

/// The controls at the paper's size and at a CPU's.
GridConfig controls(const std::string& size) {
  return load_grid_config(std::filesystem::path(BOV_CONFIG_DIR) / size / "controls.yaml");
}

const RunConfig& row(const GridConfig& grid, const std::string& name) {
  const auto found =
      std::ranges::find_if(grid.rows, [&name](const RunConfig& config) { return config.name == name; });
  INFO(name);
  REQUIRE(found != grid.rows.end());
  return *found;
}

ParameterCounts parameters(const RunConfig& config) {
  return count_parameters(to_gpt_options(config, c10::DeviceType::CPU));
}

}  // namespace

TEST_CASE("a control differs from its row in what its name says alone") {
  const std::string size = GENERATE("paper_135m", "cpu");
  CAPTURE(size);
  const GridConfig grid = controls(size);
  const auto difference = [&grid](const std::string& name, const std::string& from, auto undo) {
    RunConfig undone = row(grid, name);
    undo(undone);
    return first_difference(row(grid, from), undone);
  };
  const OptimizerConfig published;
  CHECK(difference("t1_13_equal_rates", "t1_13_add_embedding_learned", [&](RunConfig& config) {
          OptimizerConfig& rates = config.optimizer;
          CHECK(rates.alpha_lr_ratio == 1);
          CHECK(rates.alpha_beta1 == rates.scalar_beta1);
          CHECK(rates.alpha_weight_decay == 0);
          rates.alpha_lr_ratio = published.alpha_lr_ratio;
          rates.alpha_beta1 = published.alpha_beta1;
          rates.alpha_weight_decay = published.alpha_weight_decay;
        }) == "");
  CHECK(difference("t1_13_no_decay", "t1_13_add_embedding_learned", [&](RunConfig& config) {
          CHECK(config.optimizer.alpha_weight_decay == 0);
          config.optimizer.alpha_weight_decay = published.alpha_weight_decay;
        }) == "");
  for (const auto& [name, from] : {std::pair{"standard_no_smear", "t1_01_standard"},
                                   {"t1_09_no_smear", "t1_09_replace_embedding_learned"},
                                   {"bov_no_smear", "bov"}}) {
    CHECK(difference(name, from, [](RunConfig& config) {
            CHECK_FALSE(config.model.smear);
            config.model.smear = true;
          }) == "");
  }
  CHECK(difference("bov_learned_per_head", "bov", [](RunConfig& config) {
          CHECK(config.value.coefficient == ValueCoefficient::learned_per_head());
          config.value.coefficient = ValueCoefficient::learned();
        }) == "");
  CHECK(difference("bov_equal_tokens", "bov", [&grid](RunConfig& config) {
          CHECK(config.budget.tokens);
          config.budget = row(grid, "bov").budget;
        }) == "");
  CHECK(difference("standard_equal_parameters", "t1_01_standard", [&grid](RunConfig& config) {
          const ModelConfig& narrow = row(grid, "t1_01_standard").model;
          CHECK(config.model.n_embd > narrow.n_embd);
          config.model.n_embd = narrow.n_embd;
          config.model.n_head = narrow.n_head;
          config.model.n_kv_head = narrow.n_kv_head;
        }) == "");
}

TEST_CASE("equal tokens and equal parameters are equal") {
  const std::string size = GENERATE("paper_135m", "cpu");
  CAPTURE(size);
  const GridConfig grid = controls(size);
  CHECK(resolve_steps(row(grid, "bov_equal_tokens")) == resolve_steps(row(grid, "t1_01_standard")));
  CHECK(resolve_steps(row(grid, "bov")) != resolve_steps(row(grid, "t1_01_standard")));
  const auto wide = static_cast<double>(parameters(row(grid, "standard_equal_parameters")).total());
  const auto bov = static_cast<double>(parameters(row(grid, "bov")).total());
  CHECK(std::abs(wide / bov - 1) < 0.02);
}

TEST_CASE("a wider standard model gets as many tokens as the narrow one in the CPU's controls") {
  const GridConfig grid = controls("cpu");
  RunConfig longer = row(grid, "standard_equal_parameters_and_tokens");
  CHECK(resolve_steps(longer) == resolve_steps(row(grid, "t1_01_standard")));
  longer.budget = row(grid, "standard_equal_parameters").budget;
  CHECK(first_difference(row(grid, "standard_equal_parameters"), longer) == "");
}

TEST_CASE("no control passes for a row of the paper, and all are different runs") {
  const GridConfig grid = controls(GENERATE("paper_135m", "cpu"));
  std::set<std::string> hashes;
  int64_t published = 0;
  for (const RunConfig& config : grid.rows) {
    hashes.insert(config_hash(config));
    published += config.paper.row.empty() ? 0 : 1;
  }
  CHECK(hashes.size() == grid.rows.size());
  CHECK(published == 4);
}

TEST_CASE("a row with one coefficient a head") {
  CHECK(parameters(row(controls("paper_135m"), "bov_learned_per_head")).coefficients == 4 * 6);
}

}  // namespace bov::experiments
