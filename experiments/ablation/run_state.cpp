#include "experiments/ablation/run_state.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

#include "bov/io/atomic_file.h"
#include "experiments/config/yaml_config.h"
#include "experiments/data/data_identity.h"
#include "experiments/train/run_files.h"
#include "experiments/train/run_folder.h"
#include "experiments/train/run_lock.h"

namespace bov::experiments {
namespace {

using std::filesystem::path;

// A log line with every coefficient of 48 layers takes about 5 kB.
constexpr std::streamoff kTailBytes = 1 << 16;

// The last `kTailBytes` of a file, empty if it cannot be read.
std::string read_tail(const path& file) {
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  if (!in) return "";
  const std::streamoff size = in.tellg();
  in.seekg(std::max<std::streamoff>(0, size - kTailBytes));
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// The JSON object in a file, if it is whole.
std::optional<nlohmann::json> read_record(const path& file) {
  std::ifstream in(file);
  auto json = nlohmann::json::parse(in, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  return json;
}

LayerCoefficients read_coefficients(const nlohmann::json& by_layer) {
  LayerCoefficients coefficients;
  for (const auto& [layer, values] : by_layer.items()) {
    for (const auto& [name, value] : values.items())
      coefficients[name][std::stoll(layer)] = value.get<double>();
  }
  return coefficients;
}

bool is_completed(const nlohmann::json& json) {
  return json.value("status", "") == "completed" && json.contains("validation_bpb") &&
         json["validation_bpb"].is_number();
}

void read_completed(const nlohmann::json& json, RunResult& result) {
  result.bits_per_byte = json.at("validation_bpb").get<double>();
  if (json.contains("tokens_per_second")) result.tokens_per_second = json["tokens_per_second"].get<double>();
  if (json.contains("peak_memory_bytes")) result.peak_memory_bytes = json["peak_memory_bytes"].get<double>();
  if (json.contains("coefficients")) result.coefficients = read_coefficients(json["coefficients"]);
  result.status = RunStatus::complete;
}

// How the run ended, by what the trainer and the grid have recorded; nothing if it has not.
std::optional<RunResult> read_records(const path& folder, int64_t seed) {
  RunResult result{.seed = seed, .tokens_per_second = std::nullopt, .coefficients = {}, .error = ""};
  const auto own = read_record(folder / kRunResultFile);
  if (own && is_completed(*own)) {
    read_completed(*own, result);
    return result;
  }
  // The trainer itself records a divergence, in result.json; every other failure is recorded by the grid.
  for (const auto& record : {own, read_record(folder / kRunFailureFile)}) {
    if (!record) continue;
    result.status = RunStatus::failed;
    result.error = record->value("error", "");
    return result;
  }
  return std::nullopt;
}

RunResult read_run_folder(const path& folder, int64_t seed) {
  RunResult nothing{.seed = seed, .tokens_per_second = std::nullopt, .coefficients = {}, .error = ""};
  if (std::filesystem::exists(folder / kRunMetricsFile)) nothing.status = RunStatus::unfinished;
  try {
    return read_records(folder, seed).value_or(nothing);
  } catch (const std::exception&) {
    return nothing;  // an entry of another type
  }
}

path set_aside(const path& folder) {
  const RunLock nobody_trains_here(folder);
  path target;
  for (int n = 1; target.empty() || std::filesystem::exists(target); ++n) {
    target = folder.string() + ".replaced-" + std::to_string(n);
  }
  std::filesystem::rename(folder, target);
  return target;
}

}  // namespace

std::optional<RunMismatch> find_mismatch(const PlannedRun& run) {
  using enum RunStatus;
  if (!std::filesystem::exists(run.folder / kRunConfigFile)) {
    for (const char* record : {kRunResultFile, kRunMetricsFile}) {
      if (std::filesystem::exists(run.folder / record))
        return RunMismatch{unreadable, std::string(record) + " without " + kRunConfigFile};
    }
    return std::nullopt;
  }
  try {
    std::string difference = first_difference(load_run_config(run.folder / kRunConfigFile), run.config);
    if (!difference.empty()) return RunMismatch{other_config, difference};
    const nlohmann::json there = recorded_data(run.folder);
    if (there.is_null() || run.data.is_null()) return std::nullopt;
    difference = identity_difference(there, run.data);
    if (!difference.empty()) return RunMismatch{other_data, difference};
    return std::nullopt;
  } catch (const std::runtime_error& error) {
    return RunMismatch{unreadable, error.what()};
  }
}

RunResult read_run_result(const PlannedRun& run) {
  if (const auto mismatch = find_mismatch(run)) {
    return {.seed = run.seed,
            .status = mismatch->status,
            .tokens_per_second = std::nullopt,
            .coefficients = {},
            .error = mismatch->reason};
  }
  RunResult result = read_run_folder(run.folder, run.seed);
  result.data_recorded = result.status != RunStatus::complete || !recorded_data(run.folder).is_null();
  return result;
}

GridResult read_grid_result(const GridPlan& plan) {
  GridResult grid{.name = plan.name, .baseline = plan.baseline, .rows = {}};
  for (const GridRow& row : plan.rows) grid.rows.push_back({row, {}});
  for (const PlannedRun& run : plan.runs) grid.rows[run.row].runs.push_back(read_run_result(run));
  return grid;
}

std::optional<RunStep> read_newest_step(const path& run_folder) {
  std::istringstream lines(read_tail(run_folder / kRunMetricsFile));
  std::optional<RunStep> newest;
  for (std::string line; std::getline(lines, line);) {
    const auto row = nlohmann::json::parse(line, nullptr, false);
    if (!row.is_object() || !row.contains("step") || !row.contains("loss")) continue;
    if (!row["step"].is_number_integer() || !row["loss"].is_number()) continue;
    newest = RunStep{row["step"].get<int64_t>(), row["loss"].get<double>()};
  }
  return newest;
}

std::string last_log_line(const path& run_folder) {
  std::istringstream lines(read_tail(run_folder / kRunLogFile));
  std::string last;
  for (std::string line; std::getline(lines, line);) {
    if (line.find_first_not_of(" \t\r") != std::string::npos) last = line;
  }
  return last;
}

std::optional<ReplacedRun> prepare_run_folder(const PlannedRun& run) {
  std::optional<ReplacedRun> replaced;
  if (const auto mismatch = find_mismatch(run)) {
    replaced = ReplacedRun{set_aside(run.folder),
                           std::string(to_string(mismatch->status)) + " (" + mismatch->reason + ")"};
  }
  std::filesystem::create_directories(run.folder);
  atomic_write_text(run.folder / kRunConfigFile, write_run_config(run.config));
  std::filesystem::remove(run.folder / kRunFailureFile);
  return replaced;
}

void write_failure(const PlannedRun& run, const std::string& error) {
  const nlohmann::ordered_json json{{"config_hash", config_hash(run.config)}, {"error", error}};
  atomic_write_text(run.folder / kRunFailureFile, json.dump(2) + "\n");
}

}  // namespace bov::experiments
