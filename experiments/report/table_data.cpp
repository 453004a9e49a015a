#include <vector>

#include "experiments/report/findings.h"
#include "experiments/report/number_text.h"
#include "experiments/report/table.h"

// The forms of the table that programs read.
namespace bov::experiments {
namespace {

nlohmann::ordered_json estimate_json(const std::optional<Estimate>& estimate) {
  if (!estimate || estimate->count == 0) return nullptr;
  nlohmann::ordered_json json{
      {"count", estimate->count}, {"mean", estimate->mean}, {"half_width_95", nullptr}};
  if (estimate->half_width) json["half_width_95"] = *estimate->half_width;
  return json;
}

nlohmann::ordered_json optional_json(const std::optional<double>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

// {"gamma": {"8": 2.56, ...}}
nlohmann::ordered_json coefficients_json(const LayerCoefficients& coefficients) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const auto& [name, layers] : coefficients) {
    for (const auto& [layer, value] : layers) json[name][std::to_string(layer)] = value;
  }
  return json;
}

nlohmann::ordered_json run_json(const RunResult& run) {
  nlohmann::ordered_json json{{"seed", run.seed}, {"status", to_string(run.status)}};
  if (run.status == RunStatus::complete) {
    json["bits_per_byte"] = run.bits_per_byte;
    json["tokens_per_second"] = optional_json(run.tokens_per_second);
    json["peak_memory_bytes"] = optional_json(run.peak_memory_bytes);
    json["coefficients"] = coefficients_json(run.coefficients);
    json["data_recorded"] = run.data_recorded;
  }
  if (run.status == RunStatus::failed || !run.error.empty()) json["error"] = run.error;
  return json;
}

nlohmann::ordered_json row_json(const RowResult& result, const RowSummary& summary) {
  const GridRow& row = result.row;
  nlohmann::ordered_json json{
      {"name", row.name},
      {"paper_row", row.paper_row},
      {"formula", row.formula},
      {"layers", row.layers},
      {"coefficient", row.coefficient},
      {"parameters", row.parameters},
      {"flops_per_token", row.flops_per_token},
      {"steps", row.steps},
      {"tokens", row.tokens()},
      {"bits_per_byte", estimate_json(summary.bits_per_byte)},
      {"difference", estimate_json(summary.difference)},
      {"paper_bits_per_byte", optional_json(row.paper_value)},
      {"paper_difference", optional_json(summary.paper_difference)},
      {"tokens_per_second", estimate_json(summary.tokens_per_second)},
      {"peak_memory_bytes", estimate_json(summary.peak_memory_bytes)},
      {"coefficients", coefficients_json(summary.coefficients)},
      {"runs", nlohmann::ordered_json::array()},
  };
  for (const RunResult& run : result.runs) json["runs"].push_back(run_json(run));
  return json;
}

nlohmann::ordered_json finding_json(const FindingJudgement& judgement) {
  nlohmann::ordered_json json{{"id", judgement.finding.id},
                              {"statement", judgement.finding.statement},
                              {"verdict", to_string(judgement.verdict)},
                              {"comparisons", nlohmann::ordered_json::array()}};
  for (const ComparisonJudgement& comparison : judgement.comparisons) {
    json["comparisons"].push_back({{"expected", to_string(comparison.comparison)},
                                   {"verdict", to_string(comparison.verdict)},
                                   {"difference", estimate_json(comparison.difference)},
                                   {"reason", comparison.reason}});
  }
  return json;
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

// JSON's shortest spelling of a double reads back as the same number.
std::string csv_number(double value) {
  return nlohmann::json(value).dump();
}

std::string csv_number(const std::optional<double>& value) {
  return value ? csv_number(*value) : "";
}

void append_estimate(std::vector<std::string>& fields, const std::optional<Estimate>& estimate) {
  const bool known = estimate && estimate->count > 0;
  fields.push_back(known ? csv_number(estimate->mean) : "");
  fields.push_back(known ? csv_number(estimate->half_width) : "");
}

std::vector<std::string> csv_fields(const RowResult& result, const RowSummary& summary) {
  const GridRow& row = result.row;
  std::vector<std::string> fields{row.name,
                                  row.paper_row,
                                  row.formula,
                                  row.layers,
                                  row.coefficient,
                                  std::to_string(row.parameters),
                                  std::to_string(row.flops_per_token),
                                  std::to_string(row.steps),
                                  std::to_string(row.tokens()),
                                  std::to_string(result.runs.size()),
                                  std::to_string(summary.bits_per_byte.count),
                                  std::to_string(summary.failed)};
  append_estimate(fields, summary.bits_per_byte);
  append_estimate(fields, summary.difference);
  fields.push_back(csv_number(row.paper_value));
  fields.push_back(csv_number(summary.paper_difference));
  fields.push_back(summary.tokens_per_second.count > 0 ? csv_number(summary.tokens_per_second.mean) : "");
  fields.push_back(coefficients_text(summary.coefficients));
  fields.push_back(summary.foreign);
  fields.push_back(summary.error);
  return fields;
}

std::string csv_line(const std::vector<std::string>& fields) {
  std::string line;
  for (size_t i = 0; i < fields.size(); ++i) line.append(i > 0 ? "," : "").append(csv_field(fields[i]));
  return line + "\r\n";
}

}  // namespace

std::string csv_report(const GridResult& grid) {
  std::string text = csv_line({"row",
                               "paper_row",
                               "formula",
                               "layers",
                               "coefficient",
                               "parameters",
                               "flops_per_token",
                               "steps",
                               "tokens",
                               "seeds",
                               "seeds_complete",
                               "seeds_failed",
                               "bits_per_byte",
                               "bits_per_byte_half_width_95",
                               "difference",
                               "difference_half_width_95",
                               "paper_bits_per_byte",
                               "paper_difference",
                               "tokens_per_second",
                               "coefficients",
                               "not_counted",
                               "error"});
  for (const RowResult& row : grid.rows) text += csv_line(csv_fields(row, summarize(row, grid)));
  return text;
}

nlohmann::ordered_json json_report(const GridResult& grid) {
  nlohmann::ordered_json json{{"grid", grid.name},
                              {"baseline", grid.baseline},
                              {"rows", nlohmann::ordered_json::array()},
                              {"findings", nlohmann::ordered_json::array()}};
  for (const RowResult& row : grid.rows) json["rows"].push_back(row_json(row, summarize(row, grid)));
  for (const FindingJudgement& judgement : judge_findings(grid, paper_findings())) {
    json["findings"].push_back(finding_json(judgement));
  }
  return json;
}

}  // namespace bov::experiments
