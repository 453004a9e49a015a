#include "experiments/report/findings.h"

#include <map>
#include <sstream>

#include "experiments/report/number_text.h"

namespace bov::experiments {
namespace {

using enum Comparison::Expectation;

// Rows of other tables with the formula of the row that the findings name.
const std::map<std::string, std::string>& same_formula() {
  static const std::map<std::string, std::string> rows{{"T2-1", "T1-1"}, {"T2-2", "BoV"},  {"T2-3", "T1-9"},
                                                       {"T2-4", "T1-6"}, {"T2-5", "T1-3"}, {"T3-1", "BoV"}};
  return rows;
}

// "T1-9, T2-3" holds "T1-9".
bool repeats(const std::string& paper_rows, const std::string& wanted) {
  std::istringstream in(paper_rows);
  for (std::string row; std::getline(in >> std::ws, row, ',');) {
    row.erase(row.find_last_not_of(' ') + 1);
    const auto same = same_formula().find(row);
    if (row == wanted || (same != same_formula().end() && same->second == wanted)) return true;
  }
  return false;
}

const RowResult* find_paper_row(const GridResult& grid, const std::string& paper_row) {
  for (const RowResult& row : grid.rows) {
    if (repeats(row.row.paper_row, paper_row)) return &row;
  }
  return nullptr;
}

Verdict judge_interval(Comparison::Expectation expectation, const Estimate& difference) {
  const bool below = difference.upper() < 0.0;
  const bool above = difference.lower() > 0.0;
  switch (expectation) {
    case lower:
      return below ? Verdict::confirmed : above ? Verdict::contradicted : Verdict::not_resolved;
    case higher:
      return above ? Verdict::confirmed : below ? Verdict::contradicted : Verdict::not_resolved;
    case not_lower:
      return below                       ? Verdict::contradicted
             : difference.lower() >= 0.0 ? Verdict::confirmed
                                         : Verdict::not_resolved;
  }
  return Verdict::not_resolved;
}

ComparisonJudgement judge(const GridResult& grid, const Comparison& comparison) {
  ComparisonJudgement judgement{.comparison = comparison, .difference = std::nullopt, .reason = ""};
  const RowResult* row = find_paper_row(grid, comparison.row);
  const RowResult* reference = find_paper_row(grid, comparison.reference);
  if (row == nullptr || reference == nullptr) {
    judgement.reason =
        "row " + (row == nullptr ? comparison.row : comparison.reference) + " is not in this grid";
    return judgement;
  }
  const Estimate difference =
      estimate_paired_difference(bits_per_byte_by_seed(*row), bits_per_byte_by_seed(*reference));
  judgement.difference = difference;
  const std::string pair = row->row.name + " against " + reference->row.name + ": ";
  if (difference.count == 0) {
    judgement.reason = pair + "no seed has finished in both";
  } else if (!difference.half_width) {
    judgement.reason = pair + signed_estimate_text(difference) + ", one seed, so no interval";
  } else {
    judgement.reason =
        pair + signed_estimate_text(difference) + " over " + std::to_string(difference.count) + " seeds";
    judgement.verdict = judge_interval(comparison.expectation, difference);
  }
  return judgement;
}

Verdict combine(const std::vector<ComparisonJudgement>& comparisons) {
  bool all_confirmed = true;
  for (const ComparisonJudgement& judgement : comparisons) {
    if (judgement.verdict == Verdict::contradicted) return Verdict::contradicted;
    all_confirmed = all_confirmed && judgement.verdict == Verdict::confirmed;
  }
  return all_confirmed ? Verdict::confirmed : Verdict::not_resolved;
}

}  // namespace

std::string to_string(const Comparison& comparison) {
  const char* relation = comparison.expectation == lower    ? " better than "
                         : comparison.expectation == higher ? " worse than "
                                                            : " no better than ";
  return comparison.row + relation + comparison.reference;
}

const std::vector<Finding>& paper_findings() {
  static const std::vector<Finding> findings{
      {"(i)",
       "Values without context (V1 or x0·W_V) in the last third of the layers beat standard attention.",
       {{"T1-6", lower, "T1-1"}, {"T1-9", lower, "T1-1"}}},
      {"(ii)",
       "They help in deep layers only: in all layers V1 is worse than standard attention, and the last third "
       "is better "
       "than every other layer.",
       {{"T1-3", higher, "T1-1"}, {"T1-6", lower, "T1-4"}, {"T1-9", lower, "T1-7"}}},
      {"(iii)",
       "A learned coefficient is better than a fixed one.",
       {{"T1-6", lower, "T1-5"},
        {"T1-9", lower, "T1-8"},
        {"T1-11", lower, "T1-10"},
        {"T1-13", lower, "T1-12"}}},
      {"(iv)",
       "Adding the contextual V back is no better than replacing it.",
       {{"T1-11", not_lower, "T1-6"}, {"T1-13", not_lower, "T1-9"}}},
      {"(BoV)",
       "A bank of values beats standard attention and x0·W_V.",
       {{"BoV", lower, "T1-1"}, {"BoV", lower, "T1-9"}}},
      {"(Figure 5b)",
       "The bank is worse in every layer, with one shared table and without a coefficient.",
       {{"F5b every layer", higher, "BoV"},
        {"F5b shared table", higher, "BoV"},
        {"F5b no coeff.", higher, "BoV"}}},
  };
  return findings;
}

const char* to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::confirmed:
      return "confirmed";
    case Verdict::contradicted:
      return "contradicted";
    case Verdict::not_resolved:
      return "not resolved";
  }
  return "";
}

std::vector<FindingJudgement> judge_findings(const GridResult& grid, const std::vector<Finding>& findings) {
  std::vector<FindingJudgement> judgements;
  for (const Finding& finding : findings) {
    FindingJudgement judgement{.finding = finding, .comparisons = {}};
    for (const Comparison& comparison : finding.comparisons)
      judgement.comparisons.push_back(judge(grid, comparison));
    judgement.verdict = combine(judgement.comparisons);
    judgements.push_back(std::move(judgement));
  }
  return judgements;
}

}  // namespace bov::experiments
