#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "experiments/report/statistics.h"

/// What the runs of a grid gave, and its summary over seeds. Plain data: every table, file and finding is
/// made from it.
namespace bov::experiments {

/// A row of a grid: one configuration, whatever the seed.
struct GridRow {
  std::string name;                   ///< as in the grid file; also the folder of its runs
  std::string paper_row;              ///< rows of the paper it repeats, "T1-9, T2-3"; may be empty
  std::optional<double> paper_value;  ///< published validation bits per byte
  std::string formula;                ///< "γ·E_V[i]"
  std::string layers;                 ///< target layers, "8-11"; "-" for standard attention
  std::string coefficient;            ///< "learned", "0.5", "gated"
  int64_t parameters = 0;
  int64_t flops_per_token = 0;  ///< forward and backward, as published
  int64_t steps = 0;
  int64_t tokens_per_step = 0;

  int64_t tokens() const { return steps * tokens_per_step; }
  double flops() const { return static_cast<double>(flops_per_token) * static_cast<double>(tokens()); }
};

enum class RunStatus {
  missing,     ///< not started
  unfinished,  ///< started, neither finished nor failed: running, or stopped and to be continued
  failed,
  complete,
  other_config,  ///< the folder holds a run of another config
  other_data,    ///< the folder holds a run of other data
  unreadable,    ///< the folder's records do not tell which run they are of
};
/// "missing", "another config", ...
const char* to_string(RunStatus status);

/// Value coefficients by name ("gamma", "alpha", "beta", "gate_mean"), then by layer.
using LayerCoefficients = std::map<std::string, std::map<int64_t, double>>;

/// One seed of a row.
struct RunResult {
  int64_t seed = 0;
  RunStatus status = RunStatus::missing;
  double bits_per_byte = 0.0;                              ///< validation, at the end; complete runs only
  std::optional<double> tokens_per_second;                 ///< of training
  std::optional<double> peak_memory_bytes = std::nullopt;  ///< of the process
  LayerCoefficients coefficients;                          ///< at the end; complete runs only
  bool data_recorded = true;  ///< false: a complete run whose records do not tell which data it read
  std::string error;          ///< why it failed (last line of its log) or does not count
};

struct RowResult {
  GridRow row;
  std::vector<RunResult> runs;  ///< one a seed, in the order of the grid's seeds
};

struct GridResult {
  std::string name;
  std::string baseline;  ///< name of the row that differences refer to
  std::vector<RowResult> rows;
};

/// A row's figures over its complete seeds.
struct RowSummary {
  Estimate bits_per_byte;
  std::optional<Estimate> difference;  ///< to the baseline, paired by seed; absent for the baseline itself
  std::optional<double> paper_difference;  ///< to the baseline's published value
  Estimate tokens_per_second;
  Estimate peak_memory_bytes;
  LayerCoefficients coefficients;  ///< means over seeds
  int64_t failed = 0;
  std::string error;  ///< of the first failed seed
  std::string
      foreign;  ///< "seed 2 another config: model.n_embd is 64 there and 128 here; ..." of runs that do not count
};

/// Bits per byte by seed of the complete runs.
std::map<int64_t, double> bits_per_byte_by_seed(const RowResult& row);

/// The row named `name`, or null.
const RowResult* find_row(const GridResult& grid, const std::string& name);

/// "seed 2 failed: out of memory"
std::string describe(const RunResult& run);

/// "3 runs have not recorded which data they read; they count as of the same data." Empty if all have.
std::string unknown_data_note(const GridResult& grid);

RowSummary summarize(const RowResult& row, const GridResult& grid);

}  // namespace bov::experiments
