#include <algorithm>
#include <fstream>
#include <functional>
#include <map>
#include <set>

#include "bov/model/accounting.h"
#include "bov/value/presets.h"
#include "experiments/config/field_text.h"
#include "experiments/config/fields.h"
#include "experiments/config/grid_config.h"
#include "experiments/config/run_options.h"
#include "experiments/config/yaml_config.h"
#include "experiments/report/inspection.h"
#include "support/catch.h"
#include "support/temporary_folder.h"

namespace bov::experiments {
namespace {

namespace fs = std::filesystem;
using bov::testing::TemporaryFolder;
using Catch::Matchers::Contains;

fs::path write(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << text;
  return file;
}

RunConfig load_text(const std::string& text) {
  const TemporaryFolder folder;
  return load_run_config(write(folder / "run.yaml", text));
}

/// The message of the std::exception that `call` throws.
std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

/// Asserts that loading `text` fails with exactly ".../run.yaml:" + `problem`.
void check_run_error(const std::string& text, const std::string& problem) {
  const TemporaryFolder folder;
  const fs::path file = write(folder / "run.yaml", text);
  CHECK(error_of([&] { load_run_config(file); }) == file.string() + ":" + problem);
}

void check_grid_error(const std::string& text, const std::string& problem) {
  const TemporaryFolder folder;
  const fs::path file = write(folder / "grid.yaml", text);
  CHECK(error_of([&] { load_grid_config(file); }) == file.string() + ":" + problem);
}

/// A config that has another value than the default in every field.
RunConfig unusual_config() {
  RunConfig config;
  config.name = "unusual-1.5_a";
  config.value = {.combine = ValueCombine::add,
                  .coefficient = ValueCoefficient::fixed(1.0 / 3.0),
                  .source = "bank",
                  .layers = std::vector<int64_t>{3, 1},
                  .shared = true,
                  .init = BankInit::uniform};
  config.model = {.n_layer = 5,
                  .n_embd = 96,
                  .n_head = 12,
                  .n_kv_head = 3,
                  .sequence_length = 33,
                  .vocab_size = 101,
                  .window_pattern = "SL",
                  .smear = false,
                  .rotary_base = 12345.678901234567,
                  .qk_scale = 0.1 + 0.2,
                  .logit_softcap = 0,
                  .compute_dtype = "float64",
                  .table_dtype = "bfloat16",
                  .parameter_dtype = "float64"};
  config.optimizer = {.unembedding_lr = 1e-300,
                      .embedding_lr = 0.1,
                      .matrix_lr = 0,
                      .scalar_lr = 2.5,
                      .scalar_beta1 = 0.5,
                      .alpha_lr_ratio = 1,
                      .alpha_beta1 = 0,
                      .alpha_weight_decay = 0,
                      .smear_lr = 1e22,
                      .weight_decay = 0.05973833151403592,
                      .batch_lr_scale = 1.4142135623730951,
                      .warmup_steps = 0,
                      .warmdown_fraction = 1,
                      .final_lr_fraction = 0,
                      .momentum_warmup_steps = 7,
                      .muon_dtype = "float64"};
  config.data = {
      .shards = "a folder: with # and \"quotes\"", .packing = "as_published", .buffer_documents = 1};
  config.budget.tokens = 9007199254740993;  // no double of its own
  config.train = {.tokens_per_step = 66, .micro_batch = 2, .seed = 0, .device = "cuda:3"};
  config.evaluation = {.every = 0, .tokens = 66};
  config.log = {.every = 1, .coefficients_every = 2};
  config.checkpoint = {.every = 9, .keep = 1};
  config.paper = {.row = "null", .value = 0.8407};
  return config;
}

}  // namespace

TEST_CASE("what a file leaves out keeps its default") {
  RunConfig expected;
  expected.name = "run";
  expected.budget.steps = 5;
  CHECK(load_text("budget: {steps: 5}\n") == expected);
}

TEST_CASE("writing and reading gives every field back") {
  const RunConfig config = unusual_config();
  const std::string text = write_run_config(config);
  INFO(text);
  CHECK(load_text(text) == config);
  CHECK(write_run_config(load_text(text)) == text);
  // The test's config differs from the defaults everywhere, so that no field can be left out unseen.
  visit_sections(config, [&](const Section& section, const auto& given) {
    const std::remove_cvref_t<decltype(given)> defaults{};
    std::vector<std::string> lines;
    visit_fields(defaults, [&](const Field& field, const auto& member) {
      lines.push_back("  " + std::string(field.key) + ": " + field_text(member) + "\n");
    });
    const std::string key = section.key;
    if (key == "budget") return;
    const size_t start = text.find("\n" + key + ":\n");
    REQUIRE(start != std::string::npos);
    size_t line = text.find("\n", start + 1) + 1;
    for (const auto& unchanged : lines) {
      const std::string written = text.substr(line, text.find("\n", line) + 1 - line);
      CHECK(written != unchanged);
      CHECK(written.substr(0, written.find(':')) == unchanged.substr(0, unchanged.find(':')));
      line += written.size();
    }
  });
}

TEST_CASE("the written default config") {
  RunConfig config;
  config.name = "plain";
  config.budget.flops = 1.5e18;
  const std::string text = write_run_config(config);
  CHECK_THAT(text, Catch::Matchers::StartsWith("name: plain\n"
                                               "value:\n"
                                               "  combine: replace\n"
                                               "  coefficient: 1\n"
                                               "  source: stream\n"
                                               "  layers: every\n"
                                               "  shared: false\n"
                                               "  init: aligned\n"
                                               "model:\n"
                                               "  n_layer: 12\n"));
  CHECK_THAT(text, Contains("budget:\n  flops: 1.5e+18\n  tokens: null\n  steps: null\n"));
  CHECK_THAT(text, Contains("data:\n  shards: \"\"\n"));
  CHECK_THAT(text, Catch::Matchers::EndsWith("paper:\n  row: \"\"\n  value: null\n"));
}

TEST_CASE("numbers in every spelling") {
  const RunConfig config = load_text(
      "budget: {tokens: 1e9}\n"
      "optimizer: {matrix_lr: 2e-2, scalar_lr: 1, weight_decay: .5}\n"
      "train: {seed: 9223372036854775807}\n"
      "paper: {value: 8.41e-1}\n");
  CHECK(config.budget.tokens == 1000000000);
  CHECK(config.optimizer.matrix_lr == 0.02);
  CHECK(config.optimizer.scalar_lr == 1.0);
  CHECK(config.optimizer.weight_decay == 0.5);
  CHECK(config.train.seed == 9223372036854775807);
  CHECK(config.paper.value == 0.841);
  CHECK(load_text("budget: {flops: 1.5e18}").budget.flops == 1.5e18);
  CHECK(load_text("budget: {flops: null, steps: 3}").budget.steps == 3);
}

TEST_CASE("a value spec is a preset, the axes, or a preset with single axes changed") {
  const std::string budget = "budget: {steps: 1}\n";
  CHECK(load_text(budget + "value: {preset: bov}\n").value == value_preset("bov"));
  CHECK(load_text(budget +
                  "value: {combine: replace, coefficient: learned, source: bank, layers: last_third}\n")
            .value == value_preset("bov"));
  ValueSpec changed = value_preset("value_embedding_gated");
  changed.layers = std::vector<int64_t>{8, 9, 11};
  changed.shared = true;
  CHECK(load_text(budget + "value: {layers: [8, 9, 11], shared: true, preset: value_embedding_gated}\n")
            .value == changed);
  CHECK(load_text(budget + "value: {coefficient: 0.5, source: embedding}\n").value.coefficient ==
        ValueCoefficient::fixed(0.5));
  CHECK(load_text(budget + "value: {coefficient: gated, source: embedding}\n").value.coefficient ==
        ValueCoefficient::gated());
}

TEST_CASE("the texts that the field list offers are those that the library reads") {
  const ValueSpec spec;
  std::map<std::string, std::string> offered;
  visit_fields(spec, [&](const Field& field, const auto& member) {
    offered[field.key] = expectation(field.rule, member);
  });
  for (const auto rule : {TargetRule::last_third, TargetRule::every_other, TargetRule::every,
                          TargetRule::second_half, TargetRule::last_two_thirds}) {
    CHECK_THAT(offered["layers"], Contains(to_string(rule)));
  }
  CHECK(offered["combine"] ==
        "one of " + to_string(ValueCombine::replace) + ", " + to_string(ValueCombine::add));
  CHECK(offered["init"] == "one of " + to_string(BankInit::aligned) + ", " + to_string(BankInit::uniform));
  CHECK(offered["source"] == "one of stream, first_layer, embedding, bank");
}

TEST_CASE("a file extends another one, relative to its own folder") {
  const TemporaryFolder folder;
  write(folder / "base/root.yaml",
        "model: {n_layer: 6, vocab_size: 64}\n"
        "budget: {flops: 1e15}\n"
        "value: {preset: bov}\n"
        "paper: {row: T1, value: 0.5}\n");
  write(folder / "base/middle.yaml", "extends: root.yaml\nname: middle\nmodel: {vocab_size: 128}\n");
  const fs::path leaf = write(folder / "leaf.yaml",
                              "model: {n_layer: 3}\n"
                              "extends: base/middle.yaml\n"
                              "budget: {steps: 7}\n"
                              "value: {source: embedding}\n"
                              "paper: {row: T2}\n");
  const RunConfig config = load_run_config(leaf);
  CHECK(config.name == "middle");
  CHECK(config.model.n_layer == 3);
  CHECK(config.model.vocab_size == 128);
  // These three are replaced as a whole.
  CHECK_FALSE(config.budget.flops);
  CHECK(config.budget.steps == 7);
  ValueSpec embedding;
  embedding.source = "embedding";
  CHECK(config.value == embedding);
  CHECK_FALSE(config.paper.value);
}

TEST_CASE("extends refuses circles and missing files, and blames the file that holds the error") {
  const TemporaryFolder folder;
  const fs::path a = write(folder / "a.yaml", "budget: {steps: 1}\nextends: b.yaml\n");
  const fs::path b = write(folder / "b.yaml", "extends: ./a.yaml\n");
  CHECK(error_of([&] { load_run_config(a); }) ==
        b.string() + ":1: extends goes round in a circle: " + a.string() + " is being read already");
  const fs::path self = write(folder / "self.yaml", "extends: self.yaml\n");
  CHECK_THAT(error_of([&] { load_run_config(self); }), Contains("extends goes round in a circle"));
  const fs::path lost = write(folder / "lost.yaml", "\nextends: nowhere.yaml\n");
  CHECK(error_of([&] { load_run_config(lost); }) ==
        lost.string() + ":2: extends is \"nowhere.yaml\"; expected a file; " +
            (folder / "nowhere.yaml").string() + " does not exist");
  const fs::path broken = write(folder / "broken.yaml", "budget: {steps: 1}\nmodel:\n  n_head: 5\n");
  const fs::path heir = write(folder / "heir.yaml", "extends: broken.yaml\nname: heir\n");
  CHECK_THAT(
      error_of([&] { load_run_config(heir); }),
      Contains(broken.string() + ":2: model: GPTOptions: n_embd is 768; expected a multiple of n_head = 5"));
}

TEST_CASE("unknown keys name the nearest valid one") {
  check_run_error("modle: {}\n", "1: unknown key modle; the nearest valid key is model");
  check_run_error("budget: {steps: 1}\nmodel:\n  n_layer: 2\n  n_heads: 2\n",
                  "4: unknown key model.n_heads; the nearest valid key is n_head");
  check_run_error("value:\n  presett: bov\n",
                  "2: unknown key value.presett; the nearest valid key is preset");
  check_run_error("train:\n  micro_batch: 1\n  micro_batch: 2\n",
                  "3: train.micro_batch is given twice; first in line 2");
}

TEST_CASE("wrong types and values say what was expected") {
  check_run_error("model: {n_layer: two}\n", "1: model.n_layer is \"two\"; expected an integer of 1 or more");
  check_run_error("model:\n  n_layer: 2.5\n",
                  "2: model.n_layer is \"2.5\"; expected an integer of 1 or more");
  check_run_error("model:\n  n_layer: 0\n", "2: model.n_layer is \"0\"; expected an integer of 1 or more");
  check_run_error("model: {n_layer: [2]}\n", "1: model.n_layer is a list; expected an integer of 1 or more");
  check_run_error("model: {n_layer: }\n", "1: model.n_layer is empty; expected an integer of 1 or more");
  check_run_error("model: {smear: yes}\n", "1: model.smear is \"yes\"; expected true or false");
  check_run_error("model: {window_pattern: SX}\n",
                  "1: model.window_pattern is \"SX\"; expected one or more of the letters S and L");
  check_run_error("model: {compute_dtype: fp8}\n",
                  "1: model.compute_dtype is \"fp8\"; expected one of auto, float32, bfloat16, float64");
  check_run_error("optimizer: {warmdown_fraction: 1.5}\n",
                  "1: optimizer.warmdown_fraction is \"1.5\"; expected a number from 0 to 1");
  check_run_error("optimizer: {matrix_lr: nan}\n",
                  "1: optimizer.matrix_lr is \"nan\"; expected a number of 0 or more");
  check_run_error("optimizer: {batch_lr_scale: 0}\n",
                  "1: optimizer.batch_lr_scale is \"0\"; expected a number above 0");
  check_run_error("budget: {tokens: 1e30}\n",
                  "1: budget.tokens is \"1e30\"; expected an integer of 1 or more, or null");
  check_run_error("train: {device: gpu}\n", "1: train.device is \"gpu\"; expected auto, cpu, cuda or cuda:N");
  check_run_error("train: {device: \"cuda:\"}\n",
                  "1: train.device is \"cuda:\"; expected auto, cpu, cuda or cuda:N");
  check_run_error("name: ../up\n",
                  "1: name is \"../up\"; expected letters, digits, '.', '_' and '-', not starting with '.'");
  check_run_error("value: {coefficient: many}\n",
                  "1: value.coefficient is \"many\"; expected a number, learned, learned_per_head or gated");
  check_run_error("value: {source: banc}\n",
                  "1: value.source is \"banc\"; expected one of stream, first_layer, embedding, bank");
  check_run_error(
      "value: {layers: [1, x]}\n",
      "1: value.layers is a list; expected last_third, every_other, every, second_half, last_two_thirds or a "
      "list of layers");
  CHECK_THAT(error_of([] { load_text("value: {preset: bow}\n"); }),
             Contains("run.yaml:1: value.preset is \"bow\"; expected one of standard, value_residual"));
  check_run_error("value: bov\n", "1: value is \"bov\"; expected a mapping");
}

TEST_CASE("files that are no config") {
  check_run_error("", "1: the file is empty; expected a mapping");
  check_run_error("- 1\n", "1: the file is a list; expected a mapping");
  check_run_error("rows: []\n", "1: rows makes this a grid of runs (bov ablate); expected one run");
  CHECK_THAT(error_of([] { load_text("model: {n_layer: 2\ntrain: [\n"); }), Contains(": not YAML: "));
  CHECK(error_of([] { load_run_config("/nonexistent/run.yaml"); }) ==
        "/nonexistent/run.yaml:1: the file cannot be opened");
  const TemporaryFolder folder;
  CHECK(error_of([&] { load_run_config(folder.path()); }) ==
        folder.path().string() + ":1: the file cannot be opened");
}

TEST_CASE("impossible combinations name the section's line") {
  const std::string budget = "budget: {steps: 1}\n";
  check_run_error("budget: {steps: 1, flops: 1e9}\n",
                  "1: budget sets flops and steps; expected exactly one of flops, tokens and steps");
  check_run_error("name: x\nbudget: {steps: null}\n",
                  "2: budget sets nothing; expected exactly one of flops, tokens and steps");
  check_run_error("name: x\n", "1: budget sets nothing; expected exactly one of flops, tokens and steps");
  check_run_error(
      budget + "train:\n  tokens_per_step: 5000\n",
      "2: train.tokens_per_step is 5000; expected a multiple of train.micro_batch * model.sequence_length = "
      "32768");
  CHECK_THAT(
      error_of([&] { load_text(budget + "data: {packing: as_published}\nevaluation: {tokens: 0}\n"); }),
      Contains("run.yaml:3: evaluation.tokens is 0 (the whole split), which data.packing: as_published"));
  CHECK_THAT(error_of([&] { load_text(budget + "\nvalue:\n  source: first_layer\n  layers: [0]\n"); }),
             Contains("run.yaml:3: value: ") && Contains("layer 0"));
  CHECK_THAT(error_of([&] { load_text(budget + "value: {source: bank, layers: []}\n"); }),
             Contains("run.yaml:2: value: ") && Contains("leaves no layer"));
  CHECK_THAT(error_of([&] { load_text(budget + "value: {combine: add}\n"); }),
             Contains("run.yaml:2: value: ") && Contains("adds V to itself"));
  CHECK_THAT(error_of([&] { load_text(budget + "value: {source: embedding, shared: true}\n"); }),
             Contains("run.yaml:2: value: ") && Contains("shared: true needs a source with a table"));
  CHECK_THAT(error_of([&] { load_text(budget + "model: {n_kv_head: 4}\n"); }),
             Contains("run.yaml:2: model: GPTOptions: n_kv_head is 4; expected a divisor of n_head = 6"));
}

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
}

TEST_CASE("a grid expands to every row with every seed") {
  const TemporaryFolder folder;
  write(folder / "rows/bov.yaml", "name: bov\npaper: {row: Fig4, value: 0.841}\nvalue: {preset: bov}\n");
  write(folder / "bases/base.yaml", "name: ignored\nbudget: {flops: 1e15}\ntrain: {seed: 5}\n");
  const fs::path file =
      write(folder / "grids/small.yaml",
            "base: {extends: ../bases/base.yaml, model: {n_layer: 6}, data: {shards: here}}\n"
            "prepare: {corpus: quick, corpus_folder: text, tokenizer: bpe}\n"
            "rows:\n"
            "  - name: plain\n"
            "  - file: ../rows/bov.yaml\n"
            "  - {file: ../rows/bov.yaml, name: bov_half, value: {preset: bov, layers: second_half},\n"
            "     paper: {row: none}, budget: {steps: 4}, optimizer: {matrix_lr: 0.5}}\n"
            "seeds: [1, 2]\n"
            "baseline: bov\n"
            "jobs: 3\n");
  CHECK(is_grid_file(file));
  CHECK_FALSE(is_grid_file(folder / "bases/base.yaml"));
  const GridConfig grid = load_grid_config(file);
  CHECK(grid.name == "small");
  CHECK(grid.baseline == "bov");
  CHECK(grid.jobs == 3);
  CHECK(grid.prepare == PrepareConfig{"quick", "text", "bpe"});
  REQUIRE(grid.rows.size() == 3);
  CHECK(grid.rows[0].name == "plain");
  CHECK(grid.rows[0].value == ValueSpec{});
  CHECK(grid.rows[1].paper == PaperConfig{"Fig4", 0.841});
  CHECK(grid.rows[1].model.n_layer == 6);
  CHECK(grid.rows[2].name == "bov_half");
  CHECK(grid.rows[2].value.layers == TargetLayers(TargetRule::second_half));
  CHECK(grid.rows[2].paper == PaperConfig{"none", {}});
  CHECK(grid.rows[2].budget == BudgetConfig{{}, {}, 4});
  CHECK(grid.rows[2].optimizer.matrix_lr == 0.5);

  const std::vector<GridRun> runs = expand_grid(grid);
  REQUIRE(runs.size() == 6);
  CHECK(runs[3].row == "bov");
  CHECK(runs[3].seed == 2);
  RunConfig expected = grid.rows[1];
  expected.train.seed = 2;
  CHECK(runs[3].config == expected);

  const fs::path copy = write(folder / "copy.yaml", write_grid_config(grid));
  INFO(write_grid_config(grid));
  GridConfig again = load_grid_config(copy);
  CHECK(again == grid);
}

TEST_CASE("a grid's defaults") {
  const TemporaryFolder folder;
  const fs::path file = write(folder / "grid.yaml",
                              "base: {budget: {steps: 1}, train: {seed: 9}}\nrows: [{name: a}, {name: b}]\n");
  const GridConfig grid = load_grid_config(file);
  CHECK(grid.seeds == std::vector<int64_t>{9});
  CHECK(grid.baseline == "a");
  CHECK(grid.jobs == 1);
  CHECK_FALSE(grid.prepare);
}

TEST_CASE("errors in grids") {
  const std::string base = "base: {budget: {steps: 1}}\n";
  check_grid_error("rows: [{name: a}]\n", "1: base is missing; a grid needs base and rows");
  check_grid_error(base, "1: rows is missing; a grid needs base and rows");
  check_grid_error("model: {n_layer: 2}\n", "1: base is missing; a grid needs base and rows");
  check_grid_error(base + "rows: []\n", "2: rows is empty; expected one row or more");
  check_grid_error(base + "rows: {name: a}\n", "2: rows is a mapping; expected a list of mappings");
  check_grid_error(base + "rows:\n  - name: a\n  - name: b\n  - name: a\n",
                   "5: two rows are called \"a\"; expected different names");
  check_grid_error(base + "rows:\n  - name: a\n  - {value: {preset: bov}}\n",
                   "4: a row without a name; expected name, or file: of a row that has one");
  check_grid_error(base + "rows: [{name: a}]\nbaseline: c\n", "3: baseline is \"c\"; expected one of a");
  check_grid_error(base + "rows: [{name: a}]\nseeds: [1, 1]\n",
                   "3: seeds: entry 2 is no seed; expected different integers of 0 or more");
  check_grid_error(base + "rows: [{name: a}]\nseeds: []\n",
                   "3: seeds is an empty list; expected a list of one seed or more");
  check_grid_error(base + "rows: [{name: a}]\njobs: 0\n",
                   "3: jobs is \"0\"; expected an integer of 1 or more");
  check_grid_error(base + "rows: [{name: a}]\nseed: 1\n",
                   "3: unknown key seed; the nearest valid key is seeds");
  check_grid_error(base + "rows:\n  - name: a\n    extends: x.yaml\n",
                   "4: unknown key rows[0].extends; the nearest valid key is name");
  check_grid_error(
      base + "rows:\n  - name: a\n    value: {source: banc}\n",
      "4: rows[0].value.source is \"banc\"; expected one of stream, first_layer, embedding, bank");
  check_grid_error(base + "rows:\n  - name: a\n    budget: {}\n",
                   "4: budget sets nothing; expected exactly one of flops, tokens and steps");
  check_grid_error(base + "rows: [{name: a}]\nprepare: {corpus: quick, tokenizer: t}\n",
                   "3: prepare.corpus_folder is missing; expected a folder");
  check_grid_error(base + "rows: [{name: a}]\nprepare: {corpus: quick, corpus_folder: c, tokenizer: t}\n",
                   "3: prepare has no place for the token shards; expected a folder in base.data.shards");
  for (const std::string name : {"grid.yaml", "table.md", "table.csv", "table.json"}) {
    check_grid_error(
        base + "rows: [{name: a}, {name: " + name + "}]\n",
        "2: a row is called \"" + name + "\", as a file in the grid's folder; expected another name");
  }
  check_grid_error(base + "rows: [{name: a}]\nprepare: {corpus: huge}\n",
                   "3: prepare.corpus is \"huge\"; expected one of quick, core, full");
}

TEST_CASE("every config of the repository loads") {
  const fs::path configs = BOV_CONFIG_DIR;
  size_t grids = 0;
  for (const auto& entry : fs::recursive_directory_iterator(configs)) {
    const fs::path folder = entry.path().parent_path().filename();
    if (entry.path().extension() != ".yaml" || folder == "rows" || folder == "controls") continue;
    INFO(entry.path());
    if (is_grid_file(entry.path())) {
      ++grids;
      const GridConfig grid = load_grid_config(entry.path());
      CHECK(expand_grid(grid).size() == grid.rows.size() * grid.seeds.size());
    } else {
      CHECK_NOTHROW(load_run_config(entry.path()));
    }
  }
  CHECK(grids >= 7);
}

TEST_CASE("every row file names itself and is another run") {
  const TemporaryFolder folder;
  std::set<std::string> hashes;
  size_t files = 0;
  for (const char* rows : {"rows", "controls"}) {
    for (const auto& entry : fs::directory_iterator(fs::path(BOV_CONFIG_DIR) / rows)) {
      INFO(entry.path());
      const fs::path file =
          write(folder / "row.yaml", "extends: " + entry.path().string() + "\nbudget: {steps: 1}\n");
      const RunConfig row = load_run_config(file);
      CHECK(row.name == entry.path().stem());
      hashes.insert(config_hash(row));
      ++files;
    }
  }
  CHECK(hashes.size() == files);
}

TEST_CASE("the paper's 12-layer tables resolve to the published steps") {
  const fs::path folder = fs::path(BOV_CONFIG_DIR) / "paper_135m";
  struct Row {
    std::string label;
    int64_t steps;
    int64_t parameters;
  };
  const std::vector<Row> table1{
      {"T1-1", 3766, 135266329},  {"T1-2", 3766, 135266333},  {"T1-3", 3969, 135266329},
      {"T1-4", 3874, 135266335},  {"T1-5", 3838, 135266329},  {"T1-6", 3838, 135266333},
      {"T1-7", 3766, 135266335},  {"T1-8", 3766, 135266329},  {"T1-9", 3766, 135266333},
      {"T1-10", 3766, 135266329}, {"T1-11", 3766, 135266337}, {"T1-12", 3697, 135266329},
      {"T1-13", 3697, 135266337}, {"BoV", 3838, 235929629}};
  const std::vector<Row> figure5b{{"BoV", 3838, 235929629},
                                  {"F5b every layer", 3989, 437256229},
                                  {"F5b add V", 3766, 235929633},
                                  {"F5b no coeff.", 3838, 235929625},
                                  {"F5b shared table", 3838, 160432157}};
  const auto check = [&](const std::string& file, const std::vector<Row>& rows) {
    const GridConfig grid = load_grid_config(folder / file);
    REQUIRE(grid.rows.size() == rows.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      INFO(file << " " << rows[i].label);
      const RunConfig& config = grid.rows[i];
      CHECK(config.paper.row.substr(0, config.paper.row.find(',')) == rows[i].label);
      CHECK(resolve_steps(config) == rows[i].steps);
      CHECK(count_parameters(to_gpt_options(config, c10::DeviceType::CPU)).total_as_published() ==
            rows[i].parameters);
    }
  };
  check("table1.yaml", table1);
  check("figure5b.yaml", figure5b);
}

TEST_CASE("the paper's 24-layer tables have the published steps, rates and values") {
  const fs::path folder = fs::path(BOV_CONFIG_DIR) / "paper_780m";
  const GridConfig table2 = load_grid_config(folder / "table2.yaml");
  std::vector<int64_t> steps;
  std::vector<double> values;
  for (const auto& row : table2.rows) {
    steps.push_back(resolve_steps(row));
    values.push_back(row.paper.value.value());
  }
  CHECK(steps == std::vector<int64_t>{7809, 7998, 7809, 7998, 8380});
  CHECK(values == std::vector<double>{0.722, 0.714, 0.719, 0.718, 0.741});
  const BatchScaling scaling = published_batch_scaling(to_gpt_options(table2.base, c10::DeviceType::CPU));
  CHECK(table2.base.train.tokens_per_step == scaling.tokens_per_step);
  CHECK(table2.base.optimizer.batch_lr_scale == scaling.learning_rate);
  CHECK(table2.base.optimizer.weight_decay == scaling.weight_decay);
  const GridConfig table3 = load_grid_config(folder / "table3.yaml");
  CHECK(resolve_steps(table3.rows.at(1)) == 7809);
}

TEST_CASE("the field documentation lists every key") {
  const RunConfig config;
  const std::string text = document_run_config() + document_grid_config();
  CHECK_THAT(text, Contains("| `n_layer` | `12` | an integer of 1 or more | layers |"));
  CHECK_THAT(text, Contains("| `flops` | `null` | a number above 0, or null |"));
  visit_sections(config, [&](const Section& section, const auto& fields) {
    CHECK_THAT(text, Contains("### `" + std::string(section.key) + "`"));
    visit_fields(fields, [&](const Field& field, const auto&) {
      CHECK_THAT(text, Contains("| `" + std::string(field.key) + "` |"));
    });
  });
  CHECK_THAT(text, Contains("| `baseline` |") && Contains("| `corpus_folder` |"));
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
  CHECK_THAT(table,
             Contains("bov  γ·E_V[i]  8-11    233,570,333  100,663,296  745,537,536  3,838  2,012,217,344"));
}

}  // namespace bov::experiments
