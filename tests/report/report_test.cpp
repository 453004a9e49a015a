#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numbers>
#include <sstream>

#include "experiments/report/findings.h"
#include "experiments/report/grid_result.h"
#include "experiments/report/number_text.h"
#include "experiments/report/statistics.h"
#include "experiments/report/table.h"
#include "experiments/report/text_table.h"
#include "experiments/report/value_formula.h"
#include "support/catch.h"

namespace bov::experiments {
namespace {

RunResult complete(int64_t seed, double bits_per_byte) {
  return {.seed = seed,
          .status = RunStatus::complete,
          .bits_per_byte = bits_per_byte,
          .tokens_per_second = 1000.0,
          .coefficients = {},
          .error = ""};
}

RunResult without_result(int64_t seed, RunStatus status, const std::string& error = "") {
  return {.seed = seed, .status = status, .tokens_per_second = {}, .coefficients = {}, .error = error};
}

// A row whose seeds 1, 2, ... gave `values`.
RowResult row(const std::string& name, const std::string& paper_row, const std::vector<double>& values) {
  RowResult result{.row = {.name = name,
                           .paper_row = paper_row,
                           .paper_value = {},
                           .formula = "V",
                           .layers = "8-11",
                           .coefficient = "learned",
                           .parameters = 1234567,
                           .flops_per_token = 10,
                           .steps = 100,
                           .tokens_per_step = 20},
                   .runs = {}};
  for (size_t i = 0; i < values.size(); ++i) {
    result.runs.push_back(complete(static_cast<int64_t>(i) + 1, values[i]));
  }
  return result;
}

ValueSpec replace(const std::string& source, const ValueCoefficient& coefficient) {
  ValueSpec spec;
  spec.source = source;
  spec.coefficient = coefficient;
  return spec;
}

ValueSpec add(const std::string& source, const ValueCoefficient& coefficient) {
  ValueSpec spec = replace(source, coefficient);
  spec.combine = ValueCombine::add;
  return spec;
}

Finding one_comparison(Comparison::Expectation expectation) {
  return {"(x)", "A statement.", {{"T1-9", expectation, "T1-1"}}};
}

FindingJudgement judge_one(const GridResult& grid, const Finding& finding) {
  return judge_findings(grid, {finding}).at(0);
}

// Seeds 1-3 of T1-9 minus T1-1 differ by `differences`; seeds themselves differ by far more, so only pairing resolves it.
GridResult two_rows(const std::vector<double>& differences) {
  const std::vector<double> base{2.0, 2.5, 1.5};
  std::vector<double> changed;
  for (size_t i = 0; i < differences.size(); ++i) changed.push_back(base[i] + differences[i]);
  return {.name = "grid",
          .baseline = "standard",
          .rows = {row("standard", "T1-1", base), row("embedding", "T1-9, T2-3", changed)}};
}

}  // namespace

TEST_CASE("Student's t quantile agrees with closed forms and published tables") {
  // Closed forms: 1 degree tan(π(p-1/2)); 2 degrees (2p-1)·√(2/(4p(1-p))); 4 degrees by a cubic.
  const double alpha = 4 * 0.975 * 0.025;
  const double q = std::cos(std::acos(std::sqrt(alpha)) / 3) / std::sqrt(alpha);
  // Bisection ends at neighbouring doubles; the CDF's rounding is magnified by 1/density, below 1e3 here.
  const double tolerance = 1e-12;
  CHECK(student_t_quantile(0.975, 1) == Approx(std::tan(std::numbers::pi * 0.475)).epsilon(tolerance));
  CHECK(student_t_quantile(0.975, 2) == Approx(0.95 * std::sqrt(2 / alpha)).epsilon(tolerance));
  CHECK(student_t_quantile(0.975, 4) == Approx(2 * std::sqrt(q - 1)).epsilon(tolerance));
  // Six digits of the usual tables.
  CHECK(student_t_quantile(0.975, 3) == Approx(3.18245).epsilon(2e-6));
  CHECK(student_t_quantile(0.975, 9) == Approx(2.26216).epsilon(2e-6));
  CHECK(student_t_quantile(0.975, 30) == Approx(2.04227).epsilon(2e-6));
  CHECK(student_t_quantile(0.95, 5) == Approx(2.01505).epsilon(2e-6));
  CHECK(student_t_quantile(0.025, 9) == -student_t_quantile(0.975, 9));
  CHECK(student_t_quantile(0.5, 7) == Approx(0.0).margin(1e-15));
  // One degree is the Cauchy distribution: P(T <= 1) = 3/4.
  CHECK(student_t_cdf(1.0, 1) == Approx(0.75).epsilon(1e-15));
  CHECK(student_t_cdf(-1.0, 1) == Approx(0.25).epsilon(1e-15));
  CHECK_THROWS_WITH(student_t_quantile(0.975, 0), Catch::Contains("at least 1, got 0"));
  CHECK_THROWS_WITH(student_t_quantile(1.0, 3), Catch::Contains("between 0 and 1"));
}

TEST_CASE("A mean has an interval from two samples on") {
  // {1, 2, 4}: mean 7/3, s² = 7/3, t(0.975, 2) = 4.302653, half width 4.302653·√(7/9) = 3.794583.
  const std::vector<double> samples{1, 2, 4};
  const Estimate estimate = estimate_mean(samples);
  CHECK(estimate.count == 3);
  CHECK(estimate.mean == Approx(7.0 / 3.0));
  CHECK(estimate.half_width.value() == Approx(3.794583).epsilon(1e-6));
  CHECK(estimate.lower() == Approx(estimate.mean - estimate.half_width.value()));

  const Estimate single = estimate_mean(std::vector<double>{1.5});
  CHECK(single.mean == 1.5);
  CHECK_FALSE(single.half_width.has_value());
  CHECK(estimate_mean({}).count == 0);
}

TEST_CASE("A paired difference uses the seeds that both rows have") {
  const Estimate difference =
      estimate_paired_difference({{1, 2.0}, {2, 3.0}, {7, 100.0}}, {{1, 2.1}, {2, 3.3}, {9, -5.0}});
  CHECK(difference.count == 2);
  CHECK(difference.mean == Approx(-0.2));
  // Differences -0.1 and -0.3: s = 0.1·√2, half width t(0.975, 1)·0.1.
  CHECK(difference.half_width.value() == Approx(1.2706204736).epsilon(1e-9));
  CHECK(estimate_paired_difference({{1, 2.0}}, {{2, 2.0}}).count == 0);
}

TEST_CASE("Text is aligned by the columns it takes, not by its bytes") {
  CHECK(display_width("γ·x0·W_V") == 8);
  CHECK(display_width("V\u0303") == 1);  // combining tilde
  CHECK(display_width("語") == 2);
  CHECK(display_width("a\xff"
                      "b\xe8\xaa") == 5);  // broken bytes: one column each
  const TextTable table{{{"values", Align::left}, {"n", Align::right}}, {{"γ·V1", "7"}, {"V", "123"}}};
  CHECK(render_terminal(table) ==
        "values    n\n"
        "------  ---\n"
        "γ·V1      7\n"
        "V       123\n");
  CHECK(render_markdown({{{"a|b", Align::left}, {"n", Align::right}}, {{"x|y", "1"}}}) ==
        "| a\\|b | n |\n"
        "| --- | ---: |\n"
        "| x\\|y | 1 |\n");
}

TEST_CASE("A value spec is written as the paper's tables write it") {
  const auto half = ValueCoefficient::fixed(0.5);
  const auto learned = ValueCoefficient::learned();
  CHECK(value_formula({}) == "V");
  CHECK(value_formula(replace("stream", learned)) == "γ·V");
  CHECK(value_formula(replace("first_layer", ValueCoefficient::fixed(1.0))) == "V1");
  CHECK(value_formula(replace("embedding", learned)) == "γ·x0·W_V");
  CHECK(value_formula(add("embedding", half)) == "0.5·V + 0.5·x0·W_V");
  CHECK(value_formula(add("first_layer", learned)) == "α·V + β·V1");
  CHECK(value_formula(add("bank", ValueCoefficient::gated())) == "V + g·E_V[i]");
  CHECK(value_formula(replace("bank", ValueCoefficient::learned_per_head())) == "γ_h·E_V[i]");
  CHECK(value_formula(add("bank", ValueCoefficient::learned_per_head())) == "α_h·V + β_h·E_V[i]");
  ValueSpec shared_bank = replace("bank", learned);
  shared_bank.shared = true;
  CHECK(value_formula(shared_bank) == "γ·E[i]");
  CHECK(target_layers_text({}, 12) == "-");
  CHECK(coefficient_text({}) == "-");
  ValueSpec bank = replace("bank", learned);
  bank.layers = TargetRule::last_third;
  CHECK(target_layers_text(bank, 12) == "8-11");
  CHECK(coefficient_text(bank) == "learned");
  CHECK(layer_list_text({1, 3, 4, 7, 8, 9}) == "1,3-4,7-9");
}

TEST_CASE("Each verdict is reached from paired differences") {
  using enum Comparison::Expectation;
  const GridResult better = two_rows({-0.10, -0.11, -0.12});  // -0.11 ± 0.025
  const GridResult worse = two_rows({0.10, 0.11, 0.12});
  const GridResult unclear = two_rows({-0.10, 0.11, -0.02});
  CHECK(judge_one(better, one_comparison(lower)).verdict == Verdict::confirmed);
  CHECK(judge_one(worse, one_comparison(lower)).verdict == Verdict::contradicted);
  CHECK(judge_one(unclear, one_comparison(lower)).verdict == Verdict::not_resolved);
  CHECK(judge_one(better, one_comparison(higher)).verdict == Verdict::contradicted);
  CHECK(judge_one(worse, one_comparison(higher)).verdict == Verdict::confirmed);
  CHECK(judge_one(better, one_comparison(not_lower)).verdict == Verdict::contradicted);
  CHECK(judge_one(worse, one_comparison(not_lower)).verdict == Verdict::confirmed);
  CHECK(judge_one(unclear, one_comparison(not_lower)).verdict == Verdict::not_resolved);
  CHECK(judge_one(better, one_comparison(lower)).comparisons.at(0).reason ==
        "embedding against standard: -0.1100 ± 0.0248 over 3 seeds");
}

TEST_CASE("Missing rows and single seeds resolve nothing and say so") {
  using enum Comparison::Expectation;
  const auto reason = [](const GridResult& grid) {
    const FindingJudgement judgement = judge_one(grid, one_comparison(lower));
    CHECK(judgement.verdict == Verdict::not_resolved);
    return judgement.comparisons.at(0).reason;
  };
  CHECK(reason(two_rows({-0.1})) == "embedding against standard: -0.1000, one seed, so no interval");
  CHECK(reason(two_rows({})) == "embedding against standard: no seed has finished in both");
  GridResult grid = two_rows({-0.10, -0.11, -0.12});
  grid.rows.pop_back();
  CHECK(reason(grid) == "row T1-9 is not in this grid");
}

TEST_CASE("A finding is as good as its comparisons together") {
  using enum Comparison::Expectation;
  GridResult grid = two_rows({-0.10, -0.11, -0.12});
  grid.rows.push_back(row("first_layer", "T2-4", {1.9, 2.4, 1.4}));  // Table 2 repeats T1-6
  grid.rows[2].runs[1].bits_per_byte = 2.41;                         // equal differences would have no width
  Finding finding = one_comparison(lower);
  finding.comparisons.push_back({"T1-6", lower, "T1-1"});
  CHECK(judge_one(grid, finding).verdict == Verdict::confirmed);
  finding.comparisons.push_back({"T1-13", lower, "T1-1"});
  CHECK(judge_one(grid, finding).verdict == Verdict::not_resolved);
  finding.comparisons.push_back({"T1-6", higher, "T1-1"});
  CHECK(judge_one(grid, finding).verdict == Verdict::contradicted);
}

TEST_CASE("The published values themselves agree with every finding") {
  // Table 1, the 12-layer curves of Figures 4a (BoV) and 5b at step 3750 or their end; a common seed effect is added.
  const std::vector<std::pair<std::string, double>> published{{"T1-1", .854},
                                                              {"T1-2", .858},
                                                              {"T1-3", .872},
                                                              {"T1-4", .851},
                                                              {"T1-5", .849},
                                                              {"T1-6", .847},
                                                              {"T1-7", .849},
                                                              {"T1-8", .847},
                                                              {"T1-9", .845},
                                                              {"T1-10", .849},
                                                              {"T1-11", .848},
                                                              {"T1-12", .848},
                                                              {"T1-13", .845},
                                                              {"BoV", .841},
                                                              {"F5b every layer", .863},
                                                              {"F5b shared table", .848},
                                                              {"F5b no coeff.", .843}};
  GridResult grid{.name = "published", .baseline = "T1-1", .rows = {}};
  for (const auto& [paper_row, value] : published)
    grid.rows.push_back(row(paper_row, paper_row, {value, value + 0.1}));
  for (const FindingJudgement& judgement : judge_findings(grid, paper_findings())) {
    INFO(judgement.finding.id);
    // Rows 9 and 13 print the same value: no better, and the interval has no width.
    CHECK(judgement.verdict == Verdict::confirmed);
  }
}

TEST_CASE("Tables show intervals, differences, failures and what is missing") {
  GridResult grid = two_rows({-0.10, -0.11, -0.12});
  grid.rows[0].row.paper_value = 0.854;
  grid.rows[1].row.paper_value = 0.845;
  grid.rows[1].runs[0].coefficients = {{"gamma", {{8, 0.25}, {10, 0.75}}}};
  grid.rows[1].runs[1].coefficients = {{"gamma", {{8, 0.35}, {10, 0.85}}}};
  RowResult broken = row("half|done", "", {1.0});
  broken.runs.push_back(without_result(2, RunStatus::failed, "bov: disk, \"full\""));
  broken.runs.push_back(without_result(3, RunStatus::missing));
  grid.rows.push_back(broken);

  const std::string text = terminal_report(grid);
  CHECK_THAT(text, Catch::Contains("2.0000 ± 1.2421"));
  CHECK_THAT(text, Catch::Contains("-0.1100 ± 0.0248"));
  CHECK_THAT(text, Catch::Contains("0.845            -0.009"));
  CHECK_THAT(text, Catch::Contains("1/3"));
  CHECK_THAT(text, Catch::Contains("1 failed: bov: disk, \"full\""));
  CHECK_THAT(text, Catch::Contains("A row with one finished seed has no interval."));
  CHECK_THAT(text, Catch::Contains("(i) not resolved"));
  CHECK_THAT(text, !Catch::Contains("final coefficients"));

  const std::string markdown = markdown_report(grid);
  CHECK_THAT(markdown, Catch::Contains("| half\\|done |"));
  CHECK_THAT(markdown, Catch::Contains("γ 0.300 0.800"));

  const auto json = json_report(grid);
  CHECK(json.at("baseline") == "standard");
  const auto& changed = json.at("rows").at(1);
  CHECK(changed.at("difference").at("mean").get<double>() == Approx(-0.11));
  CHECK(changed.at("difference").at("half_width_95").get<double>() == Approx(0.02484).epsilon(1e-3));
  CHECK(changed.at("paper_difference").get<double>() == Approx(-0.009));
  CHECK(changed.at("coefficients").at("gamma").at("10").get<double>() == Approx(0.8));
  CHECK(json.at("rows").at(0).at("difference").is_null());
  const auto& partial = json.at("rows").at(2);
  CHECK(partial.at("bits_per_byte").at("half_width_95").is_null());
  CHECK(partial.at("runs").at(1).at("error") == "bov: disk, \"full\"");
  CHECK(partial.at("runs").at(2).at("status") == "missing");
  CHECK(json.at("findings").size() == paper_findings().size());
}

TEST_CASE("The CSV has one line a row, equal field counts and exact numbers") {
  GridResult grid = two_rows({-0.10, -0.11, -0.12});
  grid.rows[1].runs[2] = without_result(3, RunStatus::failed, "no \"space\", left");
  const std::string csv = csv_report(grid);
  std::vector<std::string> lines;
  std::istringstream in(csv);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  REQUIRE(lines.size() == 3);
  CHECK(lines[0].starts_with("row,paper_row,formula,"));
  CHECK(lines[1].starts_with("standard,T1-1,V,8-11,learned,1234567,10,100,2000,3,3,0,2.0,1.24"));
  CHECK(lines[2].starts_with("embedding,\"T1-9, T2-3\",V,"));
  CHECK(lines[2].ends_with(",\"no \"\"space\"\", left\"\r"));
  // 22 columns; quoted fields hold 1 comma each.
  CHECK(std::count(lines[0].begin(), lines[0].end(), ',') == 21);
  CHECK(std::count(lines[2].begin(), lines[2].end(), ',') == 23);
}

TEST_CASE("Reports are written whole into the grid's folder") {
  const auto folder = std::filesystem::temp_directory_path() / "bov_report_test";
  std::filesystem::remove_all(folder);
  CHECK_THROWS_WITH(write_report(two_rows({}), folder), Catch::Contains("table.md"));
  std::filesystem::create_directories(folder);
  write_report(two_rows({-0.1}), folder);
  std::ifstream in(folder / "table.json");
  CHECK(nlohmann::json::parse(in).at("rows").size() == 2);
  CHECK(std::filesystem::exists(folder / "table.md"));
  CHECK(std::filesystem::exists(folder / "table.csv"));
  std::filesystem::remove_all(folder);
}

}  // namespace bov::experiments
