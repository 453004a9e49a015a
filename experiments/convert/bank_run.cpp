#include "experiments/convert/bank_run.h"

#include <algorithm>
#include <utility>

#include "experiments/config/run_options.h"
#include "experiments/data/data_builder.h"
#include "experiments/data/data_files.h"
#include "experiments/data/packing_loader.h"
#include "experiments/generate/text_generation.h"
#include "experiments/train/token_batch.h"

namespace bov::experiments {
namespace {

TensorRows zero_rows(at::ScalarType dtype, std::vector<int64_t> shape) {
  const auto rows = [dtype, shape](int64_t begin, int64_t end) mutable {
    shape.front() = end - begin;
    return torch::zeros(shape, dtype);
  };
  return {.dtype = dtype, .shape = std::move(shape), .rows = rows};
}

/// What TrainingOptimizer::state() holds of a parameter of AdamW before its first step.
void add_new_state(CheckpointContents& contents,
                   const std::string& name,
                   at::ScalarType dtype,
                   const std::vector<int64_t>& shape) {
  for (const char* entry : {".exp_avg", ".exp_avg_sq"}) {
    contents.optimizer_rows[name + entry] = zero_rows(dtype, shape);
  }
  contents.optimizer[name + ".step"] = torch::zeros({}, torch::kInt64);
}

}  // namespace

RunConfig bank_run_config(RunConfig config, const BankModel& model, std::optional<int64_t> tokens) {
  if (tokens) {
    config.budget = {.tokens = *tokens};
  } else if (config.budget.flops) {
    config.budget = {.steps = resolve_steps(config)};
  }
  config.value = model.options.value;
  config.paper = {};
  return config;
}

CheckpointContents bank_checkpoint(CheckpointContents source, const BankModel& model, bool new_training) {
  CheckpointContents result;
  result.model = model.parameters;
  result.model_rows = model.tables;
  if (new_training) {
    const auto metadata = nlohmann::json::parse(source.metadata);
    if (metadata.contains("loader")) {
      result.metadata = nlohmann::json{{"loader", metadata["loader"]}}.dump();
    }
    return result;
  }
  result.step = source.step;
  result.metadata = source.metadata;
  if (source.optimizer.empty()) return result;
  for (auto& [entry, tensor] : source.optimizer) {
    if (model.parameters.contains(entry.substr(0, entry.rfind('.')))) result.optimizer[entry] = tensor;
  }
  for (const auto& [name, table] : model.tables) add_new_state(result, name, table.dtype, table.shape);
  for (const auto& [name, tensor] : model.parameters) {
    if (!source.model.contains(name)) {
      add_new_state(result, name, tensor.scalar_type(), tensor.sizes().vec());
    }
  }
  return result;
}

void add_training_text(ValueMeans& means,
                       const DataFolder& shards,
                       const RunConfig& config,
                       c10::Device device,
                       int64_t tokens,
                       const std::function<void(int64_t seen, int64_t wanted)>& on_batch) {
  const int64_t available = shards.train().tokens();
  const int64_t wanted = tokens == 0 ? available : std::min(tokens, available);
  PackingLoader loader(shards.train(), shards.bos(), packing_options(config));
  for (int64_t seen = 0; seen < wanted;) {
    const PackedBatch batch = loader.next();
    means.add(shifted_batch(batch.tokens, batch.rows, device).ids);
    seen += batch.rows * (batch.width - 1);
    on_batch(seen, wanted);
  }
}

DataFolder calibration_data(const RunCheckpoint& run,
                            const std::filesystem::path& text,
                            const std::filesystem::path& output) {
  if (DataFolder::exists(text)) {
    run_tokenizer(run, text / kTokenizerFolder);
    return DataFolder::open(text);
  }
  const auto tokenizer = std::filesystem::path(run.config.data.shards) / kTokenizerFolder;
  run_tokenizer(run, tokenizer);
  DocumentReader documents({text.string()});
  build_data(documents, {.tokenizer = tokenizer, .validation_per_mille = 0}, output);
  return DataFolder::open(output);
}

}  // namespace bov::experiments
