#include <map>
#include <type_traits>
#include <vector>

#include "bov/value/presets.h"
#include "config/config_text.h"
#include "experiments/config/field_text.h"
#include "experiments/config/fields.h"

namespace bov::experiments {

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

}  // namespace bov::experiments
