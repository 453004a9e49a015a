#pragma once

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "experiments/config/grid_config.h"
#include "experiments/config/run_options.h"
#include "experiments/config/yaml_config.h"
#include "support/catch.h"
#include "support/temporary_folder.h"

/// Configs as text and in memory: what the tests of configs share.
namespace bov::experiments {

namespace fs = std::filesystem;
using bov::testing::TemporaryFolder;
using Catch::Matchers::Contains;

inline fs::path write(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << text;
  return file;
}

inline RunConfig load_text(const std::string& text) {
  const TemporaryFolder folder;
  return load_run_config(write(folder / "run.yaml", text));
}

/// The message of the std::exception that `call` throws.
inline std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

/// Asserts that loading `text` fails with exactly ".../run.yaml:" + `problem`.
inline void check_run_error(const std::string& text, const std::string& problem) {
  const TemporaryFolder folder;
  const fs::path file = write(folder / "run.yaml", text);
  CHECK(error_of([&] { load_run_config(file); }) == file.string() + ":" + problem);
}

inline void check_grid_error(const std::string& text, const std::string& problem) {
  const TemporaryFolder folder;
  const fs::path file = write(folder / "grid.yaml", text);
  CHECK(error_of([&] { load_grid_config(file); }) == file.string() + ":" + problem);
}

/// A config that has another value than the default in every field.
inline RunConfig unusual_config() {
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

}  // namespace bov::experiments
