#include "experiments/ablation/run_state.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bov/io/atomic_file.h"
#include "experiments/config/yaml_config.h"
#include "experiments/train/run_lock.h"

namespace bov::experiments {
namespace {

using std::filesystem::path;

// A log line with every coefficient of 48 layers takes about 5 kB.
constexpr std::streamoff kTailBytes = 1 << 16;

constexpr const char* kResult = "result.json";
constexpr const char* kFailure = "failure.json";

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

// The JSON object in `file`, if it is whole and tells of the config with this hash, or of any if there is no hash.
std::optional<nlohmann::json> read_record(const path& file, const std::optional<std::string>& config_hash) {
  std::ifstream in(file);
  auto json = nlohmann::json::parse(in, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  if (config_hash && json.value("config_hash", "") != *config_hash) return std::nullopt;
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
  result.status = RunStatus::complete;
  result.bits_per_byte = json.at("validation_bpb").get<double>();
  if (json.contains("tokens_per_second")) result.tokens_per_second = json["tokens_per_second"].get<double>();
  if (json.contains("peak_memory_bytes")) result.peak_memory_bytes = json["peak_memory_bytes"].get<double>();
  if (json.contains("coefficients")) result.coefficients = read_coefficients(json["coefficients"]);
}

bool holds_other_config(const PlannedRun& run) {
  const path file = run.folder / "config.yaml";
  if (!std::filesystem::exists(file)) return false;
  try {
    return config_hash(load_run_config(file)) != run.config_hash;
  } catch (const ConfigError&) {
    return true;
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

RunResult read_run_folder(const path& folder, int64_t seed, const std::optional<std::string>& config_hash) {
  RunResult result{.seed = seed, .tokens_per_second = std::nullopt, .coefficients = {}, .error = ""};
  if (std::filesystem::exists(folder / "metrics.jsonl")) result.status = RunStatus::unfinished;
  if (const auto json = read_record(folder / kResult, config_hash); json && is_completed(*json)) {
    read_completed(*json, result);
    return result;
  }
  // The trainer itself records a divergence, in result.json; every other failure is recorded by the grid.
  for (const char* name : {kResult, kFailure}) {
    if (const auto json = read_record(folder / name, config_hash)) {
      result.status = RunStatus::failed;
      result.error = json->value("error", "");
      break;
    }
  }
  return result;
}

RunResult read_run_result(const PlannedRun& run) {
  return read_run_folder(run.folder, run.seed, run.config_hash);
}

GridResult read_grid_result(const GridPlan& plan) {
  GridResult grid{.name = plan.name, .baseline = plan.baseline, .rows = {}};
  for (const GridRow& row : plan.rows) grid.rows.push_back({row, {}});
  for (const PlannedRun& run : plan.runs) grid.rows[run.row].runs.push_back(read_run_result(run));
  return grid;
}

std::optional<RunStep> read_newest_step(const path& run_folder) {
  std::istringstream lines(read_tail(run_folder / "metrics.jsonl"));
  std::optional<RunStep> newest;
  for (std::string line; std::getline(lines, line);) {
    const auto row = nlohmann::json::parse(line, nullptr, false);
    if (!row.is_object() || !row.contains("step") || !row.contains("loss")) continue;
    newest = RunStep{row["step"].get<int64_t>(), row["loss"].get<double>()};
  }
  return newest;
}

std::string last_log_line(const path& run_folder) {
  std::istringstream lines(read_tail(run_folder / "log.txt"));
  std::string last;
  for (std::string line; std::getline(lines, line);) {
    if (line.find_first_not_of(" \t\r") != std::string::npos) last = line;
  }
  return last;
}

std::optional<path> prepare_run_folder(const PlannedRun& run) {
  std::optional<path> replaced;
  if (holds_other_config(run)) replaced = set_aside(run.folder);
  std::filesystem::create_directories(run.folder);
  atomic_write_text(run.folder / "config.yaml", run.config_text);
  std::filesystem::remove(run.folder / kFailure);
  return replaced;
}

void write_failure(const PlannedRun& run, const std::string& error) {
  const nlohmann::ordered_json json{{"config_hash", run.config_hash}, {"error", error}};
  atomic_write_text(run.folder / kFailure, json.dump(2) + "\n");
}

}  // namespace bov::experiments
