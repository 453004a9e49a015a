#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

#include "bov/io/checkpoint.h"
#include "experiments/staged_folder.h"
#include "experiments/train/run_model.h"

namespace bov::experiments {

/// Makes `out` the folder of a run: config.yaml, environment.json and one checkpoint, with which `bov train`, `eval` and
/// `generate` go on. The checkpoint's metadata may name what training goes on with ("loader", "loss", "training_seconds",
/// "evaluation_seconds"); what it leaves out starts anew. `environment`: environment.json of the run that it was made
/// from, or null; under "converted" it gets what made it and from which checkpoint or file (`from`), whose path is
/// recorded absolute, as the paths in the result are. Throws as save_checkpoint and StagedFolder::publish.
RunCheckpoint write_converted_run(StagedFolder& out,
                                  const RunConfig& config,
                                  CheckpointContents contents,
                                  const std::filesystem::path& from,
                                  nlohmann::json environment = nullptr);

/// environment.json of a run's folder; null if there is none.
nlohmann::json run_environment(const std::filesystem::path& run_folder);

}  // namespace bov::experiments
