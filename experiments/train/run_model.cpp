#include "experiments/train/run_model.h"

#include <set>
#include <stdexcept>

#include "bov/decode/bank_table.h"
#include "bov/io/checkpoint.h"
#include "bov/io/module_state.h"
#include "experiments/config/run_options.h"
#include "experiments/config/yaml_config.h"
#include "experiments/train/run_folder.h"

namespace bov::experiments {
namespace {

constexpr const char* kModelFile = "model.safetensors";
constexpr const char* kTable = ".table";
constexpr const char* kRowScale = ".row_scale";

/// Int8 tables as the tables that they stand for.
void dequantize(TensorMap& tensors) {
  for (auto entry = tensors.begin(); entry != tensors.end();) {
    const std::string name = entry->first;
    if (!name.ends_with(kRowScale)) {
      ++entry;
      continue;
    }
    torch::Tensor& rows = tensors.at(name.substr(0, name.size() - std::string(kRowScale).size()) + kTable);
    rows = dequantize_rows({rows, entry->second}, torch::kFloat32);
    entry = tensors.erase(entry);
  }
}

/// Everything of the file but the tables, in whose place stand tensors without memory.
TensorMap load_without_tables(const std::filesystem::path& file, const GPTOptions& options) {
  std::set<std::string> tables;
  for (int64_t layer = 0; layer < options.n_layer; ++layer) tables.insert(bank_name(options, layer));
  const SafetensorsReader reader(file);
  TensorMap tensors;
  for (const auto& [name, info] : reader.tensors()) {
    const std::string owner = name.substr(0, name.rfind('.'));
    if (!tables.contains(owner)) {
      tensors[name] = reader.tensor(name);
    } else if (name.ends_with(kTable)) {
      tensors[name] = torch::empty(info.shape, torch::TensorOptions(info.dtype).device(torch::kMeta));
    }
  }
  return tensors;
}

void move_to(GPT& model, c10::Device device) {
  for (torch::Tensor& parameter : model->parameters()) {
    if (!parameter.is_meta()) parameter.set_data(parameter.detach().to(device));
  }
}

}  // namespace

RunCheckpoint find_checkpoint(const std::filesystem::path& path) {
  RunCheckpoint run{.run_folder = run_folder_of(path), .checkpoint = path};
  run.config = load_run_config(run.run_folder / kRunConfigFile);
  if (!std::filesystem::equivalent(path, run.run_folder)) return run;
  const auto latest = latest_checkpoint(run.run_folder / kRunCheckpointFolder);
  if (!latest.path && !latest.skipped.empty()) {
    throw std::runtime_error(latest.skipped.back().path.string() + ": " + latest.skipped.back().reason);
  }
  if (!latest.path) throw std::runtime_error(path.string() + ": this run has no checkpoint yet");
  run.checkpoint = *latest.path;
  return run;
}

RunModel load_run_model(const RunCheckpoint& run, c10::Device device) {
  auto contents = load_checkpoint(run.checkpoint, CheckpointParts::model);
  dequantize(contents.model);
  RunModel loaded{GPT(to_gpt_options(run.config, device.type())), contents.step};
  // Dtypes that follow the device differ between a GPU's checkpoint and a CPU.
  load_parameters(*loaded.model, contents.model, /*convert_dtype=*/true);
  loaded.model->to(device);
  return loaded;
}

DecodingModel load_decoding_model(const RunCheckpoint& run, c10::Device device, TablePlace place) {
  GPTOptions options = to_gpt_options(run.config, device.type());
  const bool tables_replace_values = value_cache_need(options.value) == ValueCacheNeed::token_ids;
  if (place == TablePlace::device || !tables_replace_values) {
    const RunModel loaded = load_run_model(run, device);
    return {loaded.model, make_device_bank_store(bank_tables(loaded.model))};
  }
  if (place == TablePlace::file && !device.is_cpu()) {
    throw std::invalid_argument("tables stay in the file on the CPU alone; on " + device.str() +
                                " they can be on the host or the device");
  }
  const std::filesystem::path file = run.checkpoint / kModelFile;
  options.bank_device = torch::kMeta;
  GPT model(options);
  load_parameters(*model, load_without_tables(file, options), /*convert_dtype=*/true);
  move_to(model, device);
  BankTables tables = map_bank_tables(model, file);
  if (place == TablePlace::file) return {model, make_mapped_bank_store(std::move(tables))};
  return {model, std::make_shared<HostBankStore>(std::move(tables), device, options.table_dtype)};
}

}  // namespace bov::experiments
