#pragma once

/// Files and folders in a run's folder, which reports, grids and later commands find by these names.
namespace bov::experiments {

inline constexpr const char* kRunConfigFile = "config.yaml";
inline constexpr const char* kRunEnvironmentFile = "environment.json";
inline constexpr const char* kRunMetricsFile = "metrics.jsonl";
inline constexpr const char* kRunResultFile = "result.json";
inline constexpr const char* kRunFailureFile = "failure.json";  ///< why a run of a grid failed
inline constexpr const char* kRunLogFile = "log.txt";           ///< what the trainer of a grid's run said
inline constexpr const char* kRunCheckpointFolder = "checkpoints";

}  // namespace bov::experiments
