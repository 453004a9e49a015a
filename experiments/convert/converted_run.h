#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "bov/io/checkpoint.h"
#include "experiments/train/run_model.h"

namespace bov::experiments {

/// `out` without a slash at its end. Throws std::runtime_error if it exists: conversions replace nothing.
std::filesystem::path new_path(const std::filesystem::path& out);

/// Makes the folder of a run: config.yaml, environment.json and one checkpoint, with which `bov train`, `eval` and
/// `generate` go on. It is written beside `out` and renamed when it is complete. The checkpoint's metadata may name what
/// training goes on with ("loader", "loss", "training_seconds", "evaluation_seconds"); what it leaves out starts anew.
/// `environment`: environment.json of the run that it was made from, or null; how it was made is put in it. Throws as
/// new_path and save_checkpoint.
RunCheckpoint write_converted_run(const std::filesystem::path& out,
                                  const RunConfig& config,
                                  CheckpointContents contents,
                                  nlohmann::json environment);

/// environment.json of a run's folder; null if there is none.
nlohmann::json run_environment(const std::filesystem::path& run_folder);

}  // namespace bov::experiments
