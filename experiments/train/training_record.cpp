#include "experiments/train/training_record.h"

#include <ATen/Parallel.h>

#include <stdexcept>
#include <utility>

#include "bov/io/checkpoint.h"
#include "bov/model/accounting.h"
#include "experiments/config/run_options.h"
#include "experiments/config/yaml_config.h"
#include "experiments/environment.h"

namespace bov::experiments {

nlohmann::json metrics_row(const Trainer& trainer, const RunTally& tally) {
  const int64_t step = trainer.steps_done();
  return {{"step", step},
          {"tokens", step * trainer.tokens_per_step()},
          {"flops", static_cast<double>(step) * trainer.flops_per_step()},
          {"time", tally.seconds()}};
}

nlohmann::json run_result(const std::string& status,
                          const RunConfig& config,
                          const Trainer& trainer,
                          const MetricsLog& log,
                          const RunTally& tally) {
  auto result = metrics_row(trainer, tally);
  result.erase("time");
  result["status"] = status;
  result["name"] = config.name;
  result["seed"] = config.train.seed;
  result["config_hash"] = config_hash(config);
  result["parameters"] = count_parameters(to_gpt_options(config, trainer.device().type())).total();
  result["loss"] = tally.loss;
  for (const char* key : {"validation_bpb", "validation_loss", "validation_tokens", "validation_bytes"}) {
    if (log.last_evaluation().contains(key)) result[key] = log.last_evaluation()[key];
  }
  result["coefficients"] = log.last_coefficients();
  result["training_seconds"] = tally.training_seconds;
  result["evaluation_seconds"] = tally.evaluation_seconds;
  if (tally.training_seconds > 0) {
    result["tokens_per_second"] = result["tokens"].get<double>() / tally.training_seconds;
  }
  result["threads"] = at::get_num_threads();
  result["peak_memory_bytes"] = peak_memory_bytes();
  return result;
}

void save_training(const RunFolder& folder, Trainer& trainer, const RunTally& tally, int64_t keep) {
  auto state = trainer.state();
  const nlohmann::json metadata = {{"config_hash", folder.config_hash()},
                                   {"loader", std::move(state.loader)},
                                   {"loss", tally.loss},
                                   {"training_seconds", tally.training_seconds},
                                   {"evaluation_seconds", tally.evaluation_seconds}};
  save_checkpoint(folder.checkpoints(), {.step = state.step,
                                         .model = std::move(state.model),
                                         .optimizer = std::move(state.optimizer),
                                         .state = {},
                                         .metadata = metadata.dump()});
  prune_checkpoints(folder.checkpoints(), keep);
}

std::optional<std::filesystem::path> restore_training(const RunFolder& folder,
                                                      Trainer& trainer,
                                                      RunTally& tally,
                                                      Progress& progress) {
  const auto latest = latest_checkpoint(folder.checkpoints());
  for (const auto& skipped : latest.skipped) {
    progress.message("skipped " + skipped.path.string() + ": " + skipped.reason);
  }
  if (!latest.path) return std::nullopt;
  auto contents = load_checkpoint(*latest.path);
  try {
    const auto metadata = nlohmann::json::parse(contents.metadata);
    if (metadata.at("config_hash") != folder.config_hash()) {
      throw std::runtime_error(latest.path->string() +
                               ": is of another config than the folder's config.yaml");
    }
    trainer.restore(
        {std::move(contents.model), std::move(contents.optimizer), contents.step, metadata.at("loader")});
    tally.training_seconds = metadata.at("training_seconds");
    tally.evaluation_seconds = metadata.at("evaluation_seconds");
    tally.loss = metadata.at("loss");
  } catch (const nlohmann::json::exception& error) {
    throw std::runtime_error((*latest.path / "manifest.json").string() + " is damaged: " + error.what());
  }
  return latest.path;
}

}  // namespace bov::experiments
