#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "experiments/config/run_config.h"

/// An ablation grid: rows of one table, each a change of the same base, run with several seeds.
///
///     name: quickstart
///     base: {extends: base.yaml, train: {micro_batch: 8}}
///     rows:
///       - file: ../rows/t1_01_standard.yaml
///       - {name: half, value: {preset: bov, layers: second_half}}
///     seeds: [1, 2, 3]
///     baseline: t1_01_standard
namespace bov::experiments {

/// `prepare:` how to make the data of the base config where it is missing. The tokenizer gets
/// base.model.vocab_size entries and the token shards go to base.data.shards.
struct PrepareConfig {
  std::string corpus;         ///< profile of scripts/fetch_corpus: quick | core | full
  std::string corpus_folder;  ///< where its text files go
  std::string tokenizer;      ///< folder of the trained tokenizer

  bool operator==(const PrepareConfig&) const = default;
};

struct GridConfig {
  std::string name;
  RunConfig base;
  std::optional<PrepareConfig> prepare;
  std::vector<RunConfig> rows;  ///< complete configs: base and the row's changes; `name` is the row's
  std::vector<int64_t> seeds;   ///< each replaces train.seed
  std::string baseline;         ///< name of the row that the others are compared with
  int64_t jobs = 1;             ///< rows that run side by side

  bool operator==(const GridConfig&) const = default;
};

/// One run of a grid: `config` is the row's with train.seed = `seed`.
struct GridRun {
  std::string row;
  int64_t seed = 0;
  RunConfig config;
};

/// True if the file is a grid (it has `rows`), false if it is one run. Throws ConfigError if it cannot be
/// read.
bool is_grid_file(const std::filesystem::path& file);

/// Reads and checks a grid; every row passes the checks of load_run_config. Throws ConfigError, also for no
/// rows, two rows of one name, a row named as one of kGridFiles, a repeated seed, a baseline that is no row, and
/// `prepare` without `data.shards` in the base. Without `seeds` the base's
/// seed is the only one, without `baseline` the first row is it.
GridConfig load_grid_config(const std::filesystem::path& file);

/// The complete grid as YAML; load_grid_config gives an equal grid back.
std::string write_grid_config(const GridConfig& grid);

/// Every row with every seed, row by row.
std::vector<GridRun> expand_grid(const GridConfig& grid);

/// Markdown tables of the grid's own fields (those of the base: document_run_config).
std::string document_grid_config();

}  // namespace bov::experiments
