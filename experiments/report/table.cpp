#include "experiments/report/table.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "bov/io/atomic_file.h"
#include "experiments/grid_files.h"
#include "experiments/report/findings.h"
#include "experiments/report/number_text.h"
#include "experiments/report/text_table.h"
#include "experiments/train/progress.h"

// The forms of the table that people read.
namespace bov::experiments {
namespace {

constexpr int kPaperDigits = 3;  // as the paper prints them
constexpr const char* kCoefficientsTitle = "final coefficients";

const std::vector<TextColumn>& columns() {
  using enum Align;
  static const std::vector<TextColumn> all{{"row", left},
                                           {"paper row", left},
                                           {"values", left},
                                           {"layers", left},
                                           {"coefficient", left},
                                           {"parameters", right},
                                           {"steps", right},
                                           {"tokens", right},
                                           {"runs", right},
                                           {"bits per byte", left},
                                           {"difference", left},
                                           {"paper", right},
                                           {"paper difference", right},
                                           {"tokens/s", right},
                                           {kCoefficientsTitle, left},
                                           {"note", left}};
  return all;
}

std::string integer_text(int64_t value) {
  return format_count(static_cast<double>(value));
}

// "1 failed: out of memory; seed 3 another config: budget.steps is 10 there and 11 here"
std::string note(const RowSummary& summary) {
  std::string text = summary.failed > 0 ? std::to_string(summary.failed) + " failed: " + summary.error : "";
  return text + (text.empty() || summary.foreign.empty() ? "" : "; ") + summary.foreign;
}

// The cells of a row, one for each of columns(); empty where there is nothing to tell.
std::vector<std::string> cells(const RowResult& result, const RowSummary& summary) {
  const GridRow& row = result.row;
  const int64_t complete = summary.bits_per_byte.count;
  return {row.name,
          row.paper_row,
          row.formula,
          row.layers,
          row.coefficient,
          integer_text(row.parameters),
          integer_text(row.steps),
          integer_text(row.tokens()),
          std::to_string(complete) + "/" + std::to_string(result.runs.size()),
          estimate_text(summary.bits_per_byte),
          summary.difference ? signed_estimate_text(*summary.difference) : "",
          row.paper_value ? fixed_text(*row.paper_value, kPaperDigits) : "",
          summary.paper_difference ? signed_text(*summary.paper_difference, kPaperDigits) : "",
          summary.tokens_per_second.count > 0 ? format_count(summary.tokens_per_second.mean) : "",
          coefficients_text(summary.coefficients),
          note(summary)};
}

// Every row, without the column titled `hidden` and those that are empty throughout.
TextTable text_table(const GridResult& grid, std::string_view hidden) {
  TextTable table{columns(), {}};
  for (const RowResult& row : grid.rows) {
    table.rows.push_back(cells(row, summarize(row, grid)));
    for (size_t c = 0; c < columns().size(); ++c) {
      if (columns()[c].title == hidden) table.rows.back()[c].clear();
    }
  }
  return without_empty_columns(table);
}

std::string reading_notes(const GridResult& grid) {
  std::string notes =
      "Bits per byte on the validation split: mean ± half width of the 95 % interval over seeds (Student's "
      "t).\n"
      "Difference: to the row " +
      grid.baseline + ", paired by seed; negative is better.\n";
  const bool single = std::any_of(grid.rows.begin(), grid.rows.end(), [&grid](const RowResult& row) {
    return summarize(row, grid).bits_per_byte.count == 1;
  });
  if (single) notes += "A row with one finished seed has no interval.\n";
  return notes;
}

std::string findings_text(const GridResult& grid,
                          const std::string& bullet,
                          const std::string& inner_bullet) {
  std::string text;
  for (const FindingJudgement& judgement : judge_findings(grid, paper_findings())) {
    text += bullet + judgement.finding.id + " " + to_string(judgement.verdict) + ": " +
            judgement.finding.statement + "\n";
    for (const ComparisonJudgement& comparison : judgement.comparisons) {
      text += inner_bullet + to_string(comparison.comparison) + ": " + to_string(comparison.verdict) + " (" +
              comparison.reason + ")\n";
    }
  }
  return text +
         "\nA finding is confirmed if each of its comparisons is and contradicted if one is. Not resolved: "
         "the 95 %\n"
         "interval of the paired difference crosses zero, or runs are missing. The number of comparisons is "
         "not\n"
         "corrected for.\n";
}

}  // namespace

std::string terminal_report(const GridResult& grid) {
  return render_terminal(text_table(grid, kCoefficientsTitle)) + "\n" + reading_notes(grid) +
         "\nFindings of the paper\n" + findings_text(grid, "", "  ");
}

std::string markdown_report(const GridResult& grid) {
  return "# " + grid.name + "\n\n" + render_markdown(text_table(grid, "")) + "\n" + reading_notes(grid) +
         "\n## Findings of the paper\n\n" + findings_text(grid, "- ", "  - ");
}

void write_report(const GridResult& grid, const std::filesystem::path& folder) {
  atomic_write_text(folder / kGridTableMarkdown, markdown_report(grid));
  atomic_write_text(folder / kGridTableCsv, csv_report(grid));
  atomic_write_text(folder / kGridTableJson, json_report(grid).dump(2) + "\n");
}

}  // namespace bov::experiments
