#include "experiments/convert/converted_run.h"

#include <string>
#include <utility>

#include "bov/io/atomic_file.h"
#include "experiments/config/yaml_config.h"
#include "experiments/environment.h"
#include "experiments/json_file.h"
#include "experiments/train/run_files.h"

namespace bov::experiments {
namespace {

namespace fs = std::filesystem;

std::string training_metadata(const RunConfig& config, const std::string& given) {
  nlohmann::json metadata = {
      {"loader", nullptr}, {"loss", nullptr}, {"training_seconds", 0.0}, {"evaluation_seconds", 0.0}};
  metadata.update(nlohmann::json::parse(given));
  metadata["config_hash"] = config_hash(config);
  return metadata.dump();
}

}  // namespace

RunCheckpoint write_converted_run(StagedFolder& out,
                                  const RunConfig& config,
                                  CheckpointContents contents,
                                  const fs::path& from,
                                  nlohmann::json environment) {
  const nlohmann::json here = describe_environment();
  if (environment.is_null()) environment = here;
  environment["converted"] = {{"from", fs::canonical(from).string()},
                              {"versions", here.at("versions")},
                              {"command", here.at("command")}};
  contents.metadata = training_metadata(config, contents.metadata);
  atomic_write_text(out.path() / kRunConfigFile, write_run_config(config));
  atomic_write_text(out.path() / kRunEnvironmentFile, environment.dump(2) + '\n');
  const fs::path checkpoint = save_checkpoint(out.path() / kRunCheckpointFolder, contents);
  out.publish();
  return {.run_folder = out.target(),
          .checkpoint = out.target() / kRunCheckpointFolder / checkpoint.filename(),
          .config = config};
}

nlohmann::json run_environment(const fs::path& run_folder) {
  const fs::path file = run_folder / kRunEnvironmentFile;
  if (!fs::exists(file)) return nullptr;
  return read_json_file(file, [](nlohmann::json json) { return json; });
}

}  // namespace bov::experiments
