#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

namespace bov::experiments {

/// metrics.jsonl of a run: one JSON object a line, each with "step", the number of finished optimizer steps. Rows are
/// only ever appended; a resumed run first drops the rows that lie beyond its checkpoint.
class MetricsLog {
 public:
  /// Opens `file` for appending after removing, by rewriting it atomically, every row beyond `last_step` and a last
  /// line that a killed process left incomplete. Throws std::runtime_error if the file cannot be read or written or an
  /// inner line is no JSON object with an integer "step".
  MetricsLog(std::filesystem::path file, int64_t last_step);
  ~MetricsLog();
  MetricsLog(const MetricsLog&) = delete;
  MetricsLog& operator=(const MetricsLog&) = delete;

  /// Writes one line. Throws std::runtime_error naming the file and the system's reason, for instance a full disk.
  void append(const nlohmann::json& row);

  /// Returns when the rows are on the disk, so that no checkpoint is newer than its log.
  void flush();

  /// Whether a row with "validation_bpb" is there for this step.
  bool has_evaluation(int64_t step) const { return evaluated_.contains(step); }

  /// The newest evaluation row, null if there is none.
  const nlohmann::json& last_evaluation() const { return last_evaluation_; }
  /// "coefficients" of the newest row that has them, null if there is none.
  const nlohmann::json& last_coefficients() const { return last_coefficients_; }

 private:
  void keep_rows_until(int64_t last_step);
  void note(const nlohmann::json& row);

  std::filesystem::path file_;
  int descriptor_ = -1;
  std::set<int64_t> evaluated_;
  nlohmann::json last_evaluation_;
  nlohmann::json last_coefficients_;
};

}  // namespace bov::experiments
