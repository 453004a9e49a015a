#include "experiments/report/comparison.h"

#include <set>
#include <vector>

#include "experiments/report/number_text.h"
#include "experiments/report/text_table.h"
#include "experiments/train/progress.h"

namespace bov::experiments {
namespace {

constexpr double kMebibyte = 1 << 20;
constexpr int kCoefficientDigits = 3;

// "seed 2 failed: out of memory; no seed in common with standard": why numbers are absent.
std::string note(const RowResult& result, const RowSummary& summary, const std::string& baseline) {
  std::string text;
  const auto add = [&text](const std::string& part) { text += (text.empty() ? "" : "; ") + part; };
  for (const RunResult& run : result.runs) {
    if (run.status == RunStatus::complete) continue;
    add(describe(run));
  }
  if (summary.difference && summary.difference->count == 0 && summary.bits_per_byte.count > 0) {
    add("no finished seed in common with " + baseline);
  }
  return text;
}

std::string mean_text(const Estimate& estimate, double unit) {
  return estimate.count == 0 ? "" : format_count(estimate.mean / unit);
}

TextTable results_table(const GridResult& grid) {
  using enum Align;
  TextTable table{{{"run", left},
                   {"values", left},
                   {"layers", left},
                   {"parameters", right},
                   {"steps", right},
                   {"tokens", right},
                   {"finished", right},
                   {"bits per byte", left},
                   {"difference", left},
                   {"tokens/s", right},
                   {"peak MiB", right},
                   {"note", left}},
                  {}};
  for (const RowResult& result : grid.rows) {
    const GridRow& row = result.row;
    const RowSummary summary = summarize(result, grid);
    table.rows.push_back(
        {row.name, row.formula, row.layers, format_count(static_cast<double>(row.parameters)),
         format_count(static_cast<double>(row.steps)), format_count(static_cast<double>(row.tokens())),
         std::to_string(summary.bits_per_byte.count) + "/" + std::to_string(result.runs.size()),
         estimate_text(summary.bits_per_byte),
         summary.difference ? signed_estimate_text(*summary.difference) : "",
         mean_text(summary.tokens_per_second, 1.0), mean_text(summary.peak_memory_bytes, kMebibyte),
         note(result, summary, grid.baseline)});
  }
  return without_empty_columns(table);
}

// One line for each coefficient of a row, one column for each layer that has one in any row.
TextTable coefficients_table(const GridResult& grid) {
  std::vector<std::pair<std::string, LayerCoefficients>> rows;
  std::set<int64_t> layers;
  for (const RowResult& result : grid.rows) {
    rows.emplace_back(result.row.name, summarize(result, grid).coefficients);
    for (const auto& [name, by_layer] : rows.back().second) {
      for (const auto& [layer, value] : by_layer) layers.insert(layer);
    }
  }
  TextTable table{{{"run", Align::left}, {"", Align::left}}, {}};
  for (const int64_t layer : layers)
    table.columns.push_back({"layer " + std::to_string(layer), Align::right});
  for (const auto& [row, coefficients] : rows) {
    for (const auto& [name, by_layer] : coefficients) {
      std::vector<std::string> cells{row, coefficient_symbol(name)};
      for (const int64_t layer : layers) {
        const auto value = by_layer.find(layer);
        cells.push_back(value == by_layer.end() ? "" : fixed_text(value->second, kCoefficientDigits));
      }
      table.rows.push_back(cells);
    }
  }
  return table;
}

}  // namespace

std::string comparison_text(const GridResult& grid) {
  std::string text =
      render_terminal(results_table(grid)) +
      "\nBits per byte on the validation split: mean ± half width of the 95 % interval over seeds "
      "(Student's t).\nDifference: to " +
      grid.baseline + ", paired by seed; negative is better. One seed gives no interval.\n";
  if (const std::string note = unknown_data_note(grid); !note.empty()) text += note + "\n";
  const TextTable coefficients = coefficients_table(grid);
  if (!coefficients.rows.empty()) {
    text += "\nFinal value coefficients, means over seeds\n" + render_terminal(coefficients);
  }
  return text;
}

}  // namespace bov::experiments
