#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "experiments/config/run_config.h"
#include "experiments/train/run_lock.h"

namespace bov::experiments {

/// A run's folder: config.yaml (complete), environment.json, metrics.jsonl, checkpoints/step-N and, once the run is
/// over, result.json. Locked against other processes while this object lives.
class RunFolder {
 public:
  /// Makes `path` or opens it to go on with the run in it; `fresh` removes an earlier run first. Throws
  /// std::runtime_error if the folder cannot be made, written or locked, and if it belongs to a config that computes
  /// something else: the message names the first field that differs.
  RunFolder(std::filesystem::path path, const RunConfig& config, bool fresh);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path metrics_file() const { return path_ / "metrics.jsonl"; }
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }
  const std::string& config_hash() const { return config_hash_; }

  /// The final numbers, if the run is over.
  std::optional<nlohmann::json> result() const;
  void write_result(const nlohmann::json& result) const;

  /// Writes environment.json: the environment of the first start, and under "resumed" one entry for each later start
  /// with the step it went on from.
  void record_start(int64_t step) const;

 private:
  void check_same_config(const RunConfig& config) const;

  std::filesystem::path path_;
  std::string config_hash_;
  std::optional<RunLock> lock_;
};

/// The run's folder that `path` is, or that the checkpoint `path` lies in. Throws std::runtime_error if it is neither.
std::filesystem::path run_folder_of(const std::filesystem::path& path);

}  // namespace bov::experiments
