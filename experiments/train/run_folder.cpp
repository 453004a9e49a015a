#include "experiments/train/run_folder.h"

#include <yaml-cpp/yaml.h>

#include <fstream>
#include <stdexcept>

#include "bov/io/atomic_file.h"
#include "experiments/config/yaml_config.h"
#include "experiments/environment.h"

namespace bov::experiments {
namespace {

constexpr const char* kConfig = "config.yaml";
constexpr const char* kEnvironment = "environment.json";
constexpr const char* kResult = "result.json";

std::optional<nlohmann::json> read_json(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) return std::nullopt;
  std::ifstream in(file);
  auto json = nlohmann::json::parse(in, nullptr, false);
  if (json.is_discarded()) throw std::runtime_error(file.string() + ": damaged: no JSON");
  return json;
}

/// "train.seed is 1 there and 2 here" for the first scalar or list that differs, empty if none does.
std::string first_difference(const YAML::Node& there, const YAML::Node& here, const std::string& name) {
  if (!there || !here || !there.IsMap() || !here.IsMap()) {
    const std::string left = there ? YAML::Dump(there) : "absent";
    const std::string right = here ? YAML::Dump(here) : "absent";
    return left == right ? "" : name + " is " + left + " there and " + right + " here";
  }
  // Keys of one side only are few: a budget has one of three.
  for (const auto* side : {&there, &here}) {
    for (const auto& entry : *side) {
      const auto key = entry.first.as<std::string>();
      const auto found = first_difference(there[key], here[key], name.empty() ? key : name + "." + key);
      if (!found.empty()) return found;
    }
  }
  return "";
}

/// The part of a complete config that config_hash covers.
YAML::Node hashed_part(const RunConfig& config) {
  auto node = YAML::Load(write_run_config(config));
  for (const char* key : {"name", "paper", "log", "checkpoint"}) node.remove(key);
  return node;
}

void make_folder(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error)
    throw std::runtime_error(path.string() + ": the run's folder cannot be made: " + error.message());
}

}  // namespace

RunFolder::RunFolder(std::filesystem::path path, const RunConfig& config, bool fresh)
    : path_(std::move(path)), config_hash_(bov::experiments::config_hash(config)) {
  make_folder(path_);
  lock_.emplace(path_);
  if (fresh) {
    for (const char* name : {kConfig, kEnvironment, kResult}) std::filesystem::remove(path_ / name);
    std::filesystem::remove(metrics_file());
    std::filesystem::remove_all(checkpoints());
  }
  if (std::filesystem::exists(path_ / kConfig)) check_same_config(config);
  atomic_write_text(path_ / kConfig, write_run_config(config));
}

void RunFolder::check_same_config(const RunConfig& config) const {
  const RunConfig there = load_run_config(path_ / kConfig);
  if (bov::experiments::config_hash(there) == config_hash_) return;
  throw std::runtime_error(path_.string() + " holds a run of another config: " +
                           first_difference(hashed_part(there), hashed_part(config), "") +
                           "; choose another --run-dir, or give --fresh to replace that run");
}

std::optional<nlohmann::json> RunFolder::result() const {
  return read_json(path_ / kResult);
}

void RunFolder::write_result(const nlohmann::json& result) const {
  atomic_write_text(path_ / kResult, result.dump(2) + '\n');
}

void RunFolder::record_start(int64_t step) const {
  auto now = describe_environment();
  if (auto environment = read_json(path_ / kEnvironment)) {
    now["from_step"] = step;
    (*environment)["resumed"].push_back(now);
    now = *environment;
  }
  atomic_write_text(path_ / kEnvironment, now.dump(2) + '\n');
}

std::filesystem::path run_folder_of(const std::filesystem::path& path) {
  const auto absolute = std::filesystem::weakly_canonical(path);
  for (const auto& folder : {absolute, absolute.parent_path().parent_path()}) {
    if (std::filesystem::exists(folder / kConfig)) return folder;
  }
  throw std::runtime_error(path.string() + ": neither a run's folder nor a checkpoint in one: no " + kConfig);
}

}  // namespace bov::experiments
