#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiments/report/grid_result.h"

/// What the paper concludes, as comparisons of rows, each judged from the runs of a grid.
namespace bov::experiments {

/// Bits per byte of `row` against those of `reference`; rows are the paper's: "T1-9", "BoV", "F5b shared table".
struct Comparison {
  enum class Expectation {
    lower,      ///< row is better than reference
    higher,     ///< row is worse than reference
    not_lower,  ///< row is no better than reference
  };
  std::string row;
  Expectation expectation;
  std::string reference;
};
std::string to_string(const Comparison& comparison);  ///< "T1-9 better than T1-1"

struct Finding {
  std::string id;         ///< "(i)"
  std::string statement;  ///< in one sentence
  std::vector<Comparison> comparisons;
};

/// The findings (i)-(iv) of arXiv 2606.02780, read as comparisons within its Table 1, then those on BoV
/// (Table 2 and Figure 5b, whose 12-layer curves are compared at equal FLOPs).
const std::vector<Finding>& paper_findings();

enum class Verdict {
  confirmed,     ///< the 95 % interval of the paired difference lies on the expected side of zero
  contradicted,  ///< it lies on the other side
  not_resolved,  ///< it crosses zero, there is none, or a row is missing
};
const char* to_string(Verdict verdict);  ///< "confirmed", "contradicted", "not resolved"

struct ComparisonJudgement {
  Comparison comparison;
  Verdict verdict = Verdict::not_resolved;
  std::optional<Estimate>
      difference;      ///< row - reference, paired by seed; absent if a row is not in the grid
  std::string reason;  ///< in words: the interval, or what is missing
};

struct FindingJudgement {
  Finding finding;
  Verdict verdict = Verdict::not_resolved;
  std::vector<ComparisonJudgement> comparisons;
};

/// Judges each finding: confirmed if every comparison is, contradicted if any is, else not resolved. Rows of
/// the grid are found by the paper rows they repeat; Table 2's rows stand for the rows of Table 1 with the
/// same formula.
std::vector<FindingJudgement> judge_findings(const GridResult& grid, const std::vector<Finding>& findings);

}  // namespace bov::experiments
