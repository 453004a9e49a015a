#include "experiments/eval/run_evaluation.h"

#include <stdexcept>

#include "experiments/config/run_options.h"
#include "experiments/train/run_folder.h"
#include "experiments/train/trainer.h"

namespace bov::experiments {
namespace {

/// Ids of another tokenizer mean nothing to the model.
void check_tokenizer(const std::filesystem::path& run_folder, const DataFolder& data) {
  const auto recorded = recorded_tokenizer(run_folder);
  const auto given = data.identity().at("tokenizer");
  if (!recorded || *recorded == given) return;
  throw std::runtime_error(run_folder.string() + " was trained with tokenizer \"" + *recorded +
                           "\", but the data are of tokenizer " + given.dump());
}

}  // namespace

RunEvaluation::RunEvaluation(const RunCheckpoint& run)
    : device_(resolve_device(run.config.train)),
      data_(DataFolder::open(run.config.data.shards)),
      options_(validation_options(run.config)) {
  data_.verify_if_quick();
  check_tokenizer(run.run_folder, data_);
}

ValidationResult RunEvaluation::of(GPT& model) const {
  return *evaluate(model, data_, device_, options_);
}

ValidationResult RunEvaluation::of(const RunCheckpoint& run) const {
  RunModel loaded = load_run_model(run, device_);
  return of(loaded.model);
}

}  // namespace bov::experiments
