#include "experiments/config/run_options.h"

#include <algorithm>
#include <set>
#include <type_traits>
#include <vector>

#include "bov/value/presets.h"
#include "config/config_text.h"
#include "experiments/config/fields.h"
#include "experiments/report/inspection.h"

namespace bov::experiments {

TEST_CASE("the hash tells apart what computes differently, and nothing else") {
  RunConfig config;
  config.budget.steps = 5;
  // Pinned: a change of this number makes every finished run of a grid run again.
  CHECK(config_hash(config) == "ac4caa3477401c37");
  const std::string hash = config_hash(config);
  CHECK(config_hash(load_text("budget: {steps: 5}\nname: other\npaper: {row: x, value: 1}\nlog: {every: 3}\n"
                              "checkpoint: {every: 3}\n")) == hash);
  CHECK(config_hash(load_text("budget: {steps: 5}\nvalue: {preset: standard}\n")) == hash);
  // The path of the data does not count: a run records what lies there.
  CHECK(config_hash(load_text("budget: {steps: 5}\ndata: {shards: elsewhere}\n")) == hash);
  CHECK(first_difference(config, load_text("budget: {steps: 5}\nname: other\n")).empty());
  CHECK(first_difference(config, load_text("budget: {tokens: 9}\nmodel: {n_layer: 3}\n")) ==
        "model.n_layer is 12 there and 3 here");
  // Every field of every other section counts.
  std::set<std::string> hashes{hash};
  size_t changed = 0;
  RunConfig other = config;
  const RunConfig unusual = unusual_config();
  visit_sections(other, [&](const Section& section, auto& fields) {
    visit_sections(unusual, [&](const Section& from, const auto& values) {
      if constexpr (std::same_as<std::remove_cvref_t<decltype(fields)>,
                                 std::remove_cvref_t<decltype(values)>>) {
        if (section.decides_result) {
          ++changed;
          fields = values;
          hashes.insert(config_hash(other));
        }
      }
    });
  });
  CHECK(changed == 7);
  CHECK(hashes.size() == changed + 1);
}

TEST_CASE("options of the library") {
  RunConfig config = unusual_config();
  const GPTOptions options = to_gpt_options(config, c10::DeviceType::CPU);
  CHECK(options.sequence_length == 33);
  CHECK(options.vocab_size == 101);
  CHECK(options.n_layer == 5);
  CHECK(options.n_head == 12);
  CHECK(options.n_kv_head == 3);
  CHECK(options.n_embd == 96);
  CHECK(options.window_pattern == "SL");
  CHECK(options.rotary_base == config.model.rotary_base);
  CHECK(options.qk_scale == config.model.qk_scale);
  CHECK(options.logit_softcap == 0);
  CHECK_FALSE(options.smear);
  CHECK(options.value == config.value);
  CHECK(options.parameter_dtype == torch::kFloat64);
  CHECK(options.table_dtype == torch::kBFloat16);
  CHECK(options.compute_dtype == torch::kFloat64);

  const RunConfig plain;
  CHECK(to_gpt_options(plain, c10::DeviceType::CPU).compute_dtype == torch::kFloat32);
  CHECK(to_gpt_options(plain, c10::DeviceType::CPU).table_dtype == torch::kFloat32);
  CHECK(to_gpt_options(plain, c10::DeviceType::CUDA).compute_dtype == torch::kBFloat16);
  CHECK(to_gpt_options(plain, c10::DeviceType::CUDA).table_dtype == torch::kBFloat16);
  CHECK(to_gpt_options(plain, c10::DeviceType::CUDA).parameter_dtype == torch::kFloat32);
  CHECK(resolve_muon_dtype(plain.optimizer, c10::DeviceType::CPU) == torch::kFloat32);
  CHECK(resolve_muon_dtype(plain.optimizer, c10::DeviceType::CUDA) == torch::kBFloat16);
}

TEST_CASE("the three budgets as steps") {
  RunConfig config;
  config.budget.flops = 1.5e18;
  CHECK(resolve_steps(config) == 3766);
  config.budget = {.flops = {}, .tokens = 524288 * 10 + 262143, .steps = {}};
  CHECK(resolve_steps(config) == 10);
  config.budget = {.flops = {}, .tokens = 1, .steps = {}};
  CHECK(resolve_steps(config) == 1);
  config.budget = {.flops = {}, .tokens = {}, .steps = 17};
  CHECK(resolve_steps(config) == 17);
  config.budget.tokens = 1;
  CHECK(error_of([&] { resolve_steps(config); }) ==
        "budget sets tokens and steps; expected exactly one of flops, tokens and steps");
}

TEST_CASE("devices") {
  CHECK(resolve_device({.device = "cpu"}).is_cpu());
  CHECK_THAT(error_of([] { resolve_device({.device = "cuda:99"}); }),
             Contains("train.device is \"cuda:99\"; LibTorch sees "));
  CHECK(resolve_device({.device = "auto"}, "cpu").is_cpu());
  CHECK_THAT(error_of([] { resolve_device({.device = "auto"}, "cuda:99"); }),
             Contains("--device is \"cuda:99\"; LibTorch sees "));
  CHECK_THAT(error_of([] { resolve_device({.device = "cpu"}, "cuda"); }),
             Contains("train.device is \"cpu\", but the device asked for is \"cuda\""));
}

TEST_CASE("inspection of a run and of a grid") {
  RunConfig config;
  config.name = "bov";
  config.value = value_preset("bov");
  config.budget.flops = 1.5e18;
  config.train.device = "cpu";
  const Inspection inspection = inspect_config(config);
  const auto json = to_json(inspection);
  CHECK(json["parameters"]["banks"] == 100663296);
  CHECK(json["parameters"]["total as published"] == 235929629);
  CHECK(json["training"]["FLOPs per token as published"] == 745537536);
  CHECK(json["training"]["steps"] == 3838);
  CHECK(json["training"]["tokens"] == 2012217344);
  CHECK(json["target layers"] == std::vector<int64_t>{8, 9, 10, 11});
  CHECK(json["memory in bytes"]["weights"] == 4 * (235929629 - 4 * 768 * 768));
  const std::string text = to_text(inspection);
  CHECK_THAT(text, Contains("bov: values") && Contains("in layers 8-11 of 12"));
  CHECK_THAT(text, Contains("745,537,536") && Contains("2,012,217,344") && Contains("MiB of memory on cpu"));
  const std::string table = to_table({inspection, inspection});
  CHECK(std::count(table.begin(), table.end(), '\n') == 4);
  CHECK_THAT(
      table,
      Contains(
          "bov  γ·E_V[i]  8-11    233,570,333  235,929,629  100,663,296  745,537,536  3,838  2,012,217,344"));
}

}  // namespace bov::experiments
