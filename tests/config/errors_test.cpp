#include "config/config_text.h"

namespace bov::experiments {

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
  for (const std::string name : {"grid.yaml", "table.md", "table.csv", "table.json", "lock"}) {
    check_grid_error(
        base + "rows: [{name: a}, {name: " + name + "}]\n",
        "2: a row is called \"" + name + "\", as a file in the grid's folder; expected another name");
  }
  check_grid_error(base + "rows: [{name: a}]\nprepare: {corpus: huge}\n",
                   "3: prepare.corpus is \"huge\"; expected one of quick, core, full");
}

}  // namespace bov::experiments
