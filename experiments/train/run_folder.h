#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "experiments/config/run_config.h"
#include "experiments/train/run_files.h"
#include "experiments/train/run_lock.h"

namespace bov::experiments {

/// A run's folder: config.yaml (complete), environment.json, metrics.jsonl, checkpoints/step-N and, once the run is
/// over, result.json. Locked against other processes while this object lives. Nothing of an earlier run is changed before
/// clear() or write_config(), so that whatever may fail can be tried first.
class RunFolder {
 public:
  /// Makes `path` if it is missing. Throws std::runtime_error if it cannot be made, written or locked.
  RunFolder(std::filesystem::path path, RunConfig config);

  /// Throws std::runtime_error if an earlier run in the folder had a config that computes something else, naming the
  /// first field that differs.
  void check_same_config() const;
  /// The same for data of another identity (DataFolder::identity). A run that recorded none passes.
  void check_same_data(const nlohmann::json& identity) const;

  /// Removes what an earlier run left, config.yaml last of all, so that what a kill leaves can still be told from another
  /// run.
  void clear() const;
  void write_config() const;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path metrics_file() const { return path_ / kRunMetricsFile; }
  std::filesystem::path checkpoints() const { return path_ / kRunCheckpointFolder; }
  const std::string& config_hash() const { return config_hash_; }

  /// The final numbers, if the run is over. Throws std::runtime_error naming a damaged file.
  std::optional<nlohmann::json> result() const;
  void write_result(const nlohmann::json& result) const;

  /// Writes environment.json: the environment of the first start and the data's identity, and under "resumed" one entry
  /// for each later start with the step it went on from.
  void record_start(int64_t step, const nlohmann::json& data_identity) const;

 private:
  std::filesystem::path path_;
  RunConfig config_;
  std::string config_hash_;
  std::optional<RunLock> lock_;
};

/// The identity of the data that the run in `folder` began with (environment.json); null if it has recorded none. Throws
/// std::runtime_error naming a damaged file.
nlohmann::json recorded_data(const std::filesystem::path& folder);

/// The hash of the tokenizer of the run's data (environment.json); empty if it has recorded none. Throws std::runtime_error
/// naming the file if it is damaged.
std::optional<std::string> recorded_tokenizer(const std::filesystem::path& run_folder);

/// The run's folder that `path` is, or that the checkpoint `path` lies in. Throws std::runtime_error if it is neither.
std::filesystem::path run_folder_of(const std::filesystem::path& path);

}  // namespace bov::experiments
