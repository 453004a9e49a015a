#include "experiments/convert/bank_run.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "experiments/config/run_options.h"

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

}  // namespace bov::experiments
