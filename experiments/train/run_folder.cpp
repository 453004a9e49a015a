#include "experiments/train/run_folder.h"

#include <stdexcept>
#include <utility>

#include "bov/io/atomic_file.h"
#include "experiments/config/yaml_config.h"
#include "experiments/data/data_identity.h"
#include "experiments/environment.h"
#include "experiments/json_file.h"

namespace bov::experiments {
namespace {

constexpr const char* kData = "data";  // in environment.json

std::optional<nlohmann::json> read_object(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) return std::nullopt;
  return read_json_file(file, [&file](nlohmann::json json) {
    if (!json.is_object()) throw std::runtime_error(file.string() + " is damaged: it holds no JSON object");
    return json;
  });
}

void make_folder(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error)
    throw std::runtime_error(path.string() + ": the run's folder cannot be made: " + error.message());
}

}  // namespace

RunFolder::RunFolder(std::filesystem::path path, RunConfig config)
    : path_(std::move(path)),
      config_(std::move(config)),
      config_hash_(bov::experiments::config_hash(config_)) {
  make_folder(path_);
  lock_.emplace(path_);
}

void RunFolder::check_same_config() const {
  if (!std::filesystem::exists(path_ / kRunConfigFile)) return;
  const std::string difference = first_difference(load_run_config(path_ / kRunConfigFile), config_);
  if (difference.empty()) return;
  throw std::runtime_error(path_.string() + " holds a run of another config: " + difference +
                           "; choose another --run-dir, or give --fresh to replace that run");
}

void RunFolder::check_same_data(const nlohmann::json& identity) const {
  const nlohmann::json recorded = recorded_data(path_);
  const std::string difference = recorded.is_null() ? "" : identity_difference(recorded, identity);
  if (difference.empty()) return;
  throw std::runtime_error(
      path_.string() + " holds a run of other data than " + config_.data.shards + ": " + difference +
      "; give it the data it was begun with, choose another --run-dir, or give --fresh to "
      "replace that run");
}

void RunFolder::clear() const {
  std::filesystem::remove_all(checkpoints());
  for (const char* name :
       {kRunResultFile, kRunFailureFile, kRunMetricsFile, kRunEnvironmentFile, kRunConfigFile}) {
    std::filesystem::remove(path_ / name);
  }
}

void RunFolder::write_config() const {
  atomic_write_text(path_ / kRunConfigFile, write_run_config(config_));
}

std::optional<nlohmann::json> RunFolder::result() const {
  const std::filesystem::path file = path_ / kRunResultFile;
  if (!std::filesystem::exists(file)) return std::nullopt;
  return read_json_file(file, [](nlohmann::json result) {
    result.at("status").get<std::string>();
    result.value("error", std::string());
    result.value("validation_bpb", 0.0);
    return result;
  });
}

void RunFolder::write_result(const nlohmann::json& result) const {
  atomic_write_text(path_ / kRunResultFile, result.dump(2) + '\n');
}

void RunFolder::record_start(int64_t step, const nlohmann::json& data_identity) const {
  auto now = describe_environment();
  if (auto environment = read_object(path_ / kRunEnvironmentFile)) {
    now["from_step"] = step;
    (*environment)["resumed"].push_back(now);
    now = *environment;
  }
  now[kData] = data_identity;
  atomic_write_text(path_ / kRunEnvironmentFile, now.dump(2) + '\n');
}

nlohmann::json recorded_data(const std::filesystem::path& folder) {
  const auto environment = read_object(folder / kRunEnvironmentFile);
  return environment ? environment->value(kData, nlohmann::json()) : nlohmann::json();
}

std::optional<std::string> recorded_tokenizer(const std::filesystem::path& run_folder) {
  const nlohmann::json data = recorded_data(run_folder);
  const auto tokenizer = data.find("tokenizer");
  if (data.is_null() || (data.is_object() && tokenizer == data.end())) return std::nullopt;
  if (!data.is_object() || !tokenizer->is_string()) {
    throw std::runtime_error((run_folder / kRunEnvironmentFile).string() +
                             " is damaged: expected a tokenizer's hash as text under \"data\"");
  }
  return tokenizer->get<std::string>();
}

std::filesystem::path run_folder_of(const std::filesystem::path& path) {
  const auto absolute = std::filesystem::weakly_canonical(path);
  for (const auto& folder : {absolute, absolute.parent_path().parent_path()}) {
    if (std::filesystem::exists(folder / kRunConfigFile)) return folder;
  }
  throw std::runtime_error(path.string() + ": neither a run's folder nor a checkpoint in one: no " +
                           kRunConfigFile);
}

}  // namespace bov::experiments
