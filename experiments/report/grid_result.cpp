#include "experiments/report/grid_result.h"

#include <algorithm>
#include <utility>

namespace bov::experiments {
namespace {

LayerCoefficients mean_coefficients(const std::vector<RunResult>& runs) {
  std::map<std::pair<std::string, int64_t>, std::vector<double>> samples;
  for (const RunResult& run : runs) {
    for (const auto& [name, layers] : run.coefficients) {
      for (const auto& [layer, value] : layers) samples[{name, layer}].push_back(value);
    }
  }
  LayerCoefficients means;
  for (const auto& [key, values] : samples) means[key.first][key.second] = estimate_mean(values).mean;
  return means;
}

bool is_foreign(RunStatus status) {
  return status == RunStatus::other_config || status == RunStatus::other_data ||
         status == RunStatus::unreadable;
}

}  // namespace

const char* to_string(RunStatus status) {
  switch (status) {
    case RunStatus::missing:
      return "missing";
    case RunStatus::unfinished:
      return "unfinished";
    case RunStatus::failed:
      return "failed";
    case RunStatus::complete:
      return "complete";
    case RunStatus::other_config:
      return "another config";
    case RunStatus::other_data:
      return "other data";
    case RunStatus::unreadable:
      return "unreadable records";
  }
  return "";
}

std::map<int64_t, double> bits_per_byte_by_seed(const RowResult& row) {
  std::map<int64_t, double> values;
  for (const RunResult& run : row.runs) {
    if (run.status == RunStatus::complete) values[run.seed] = run.bits_per_byte;
  }
  return values;
}

const RowResult* find_row(const GridResult& grid, const std::string& name) {
  const auto found = std::find_if(grid.rows.begin(), grid.rows.end(),
                                  [&name](const RowResult& row) { return row.row.name == name; });
  return found == grid.rows.end() ? nullptr : &*found;
}

std::string describe(const RunResult& run) {
  return "seed " + std::to_string(run.seed) + " " + to_string(run.status) +
         (run.error.empty() ? "" : ": " + run.error);
}

std::string unknown_data_note(const GridResult& grid) {
  int64_t unknown = 0;
  for (const RowResult& row : grid.rows) {
    unknown += std::ranges::count_if(row.runs, [](const RunResult& run) {
      return run.status == RunStatus::complete && !run.data_recorded;
    });
  }
  if (unknown == 0) return "";
  return std::to_string(unknown) +
         (unknown == 1 ? " run has not recorded which data it read; it counts"
                       : " runs have not recorded which data they read; they count") +
         " as of the same data.";
}

RowSummary summarize(const RowResult& row, const GridResult& grid) {
  RowSummary summary;
  std::vector<double> values;
  std::vector<double> speeds;
  std::vector<double> peaks;
  for (const RunResult& run : row.runs) {
    if (run.status == RunStatus::failed) {
      if (summary.failed++ == 0) summary.error = run.error;
    }
    if (is_foreign(run.status)) summary.foreign += (summary.foreign.empty() ? "" : "; ") + describe(run);
    if (run.status != RunStatus::complete) continue;
    values.push_back(run.bits_per_byte);
    if (run.tokens_per_second) speeds.push_back(*run.tokens_per_second);
    if (run.peak_memory_bytes) peaks.push_back(*run.peak_memory_bytes);
  }
  summary.bits_per_byte = estimate_mean(values);
  summary.tokens_per_second = estimate_mean(speeds);
  summary.peak_memory_bytes = estimate_mean(peaks);
  summary.coefficients = mean_coefficients(row.runs);
  const RowResult* baseline = find_row(grid, grid.baseline);
  if (baseline != nullptr && baseline->row.name != row.row.name) {
    summary.difference =
        estimate_paired_difference(bits_per_byte_by_seed(row), bits_per_byte_by_seed(*baseline));
    if (row.row.paper_value && baseline->row.paper_value) {
      summary.paper_difference = *row.row.paper_value - *baseline->row.paper_value;
    }
  }
  return summary;
}

}  // namespace bov::experiments
