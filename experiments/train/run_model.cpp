#include "experiments/train/run_model.h"

#include <set>
#include <stdexcept>

#include "bov/decode/bank_table.h"
#include "bov/io/checkpoint.h"
#include "bov/io/module_state.h"
#include "experiments/config/run_options.h"
#include "experiments/config/yaml_config.h"
#include "experiments/naming_path.h"
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

/// A tensor's name without its last part.
std::string owner(const std::string& name) {
  return name.substr(0, name.rfind('.'));
}

/// Of the tables that `model` has no memory for.
std::set<std::string> table_owners(const GPT& model) {
  std::set<std::string> owners;
  for (const auto& [name, parameter] : module_state(*model)) {
    if (parameter.is_meta()) owners.insert(owner(name));
  }
  return owners;
}

/// Everything of the file but these tables, which stay where they are.
TensorMap read_without_tables(const std::filesystem::path& file, const GPT& model) {
  const std::set<std::string> tables = table_owners(model);
  const SafetensorsReader reader(file);
  TensorMap tensors;
  for (const auto& [name, info] : reader.tensors()) {
    if (!tables.contains(owner(name))) tensors[name] = reader.tensor(name);
  }
  return tensors;
}

/// Takes these tables out of `tensors`, to the device: int8 rows as they are, others in the model's dtype.
BankTables take_tables(const GPT& model, TensorMap& tensors, c10::Device device) {
  const std::set<std::string> owners = table_owners(model);
  TensorMap tables;
  for (auto entry = tensors.begin(); entry != tensors.end();) {
    const auto& [name, tensor] = *entry;
    if (!owners.contains(owner(name))) {
      ++entry;
      continue;
    }
    const bool is_float_table = name.ends_with(kTable) && tensor.is_floating_point();
    tables[name] = tensor.to(device, is_float_table ? model->options().table_dtype : tensor.scalar_type());
    entry = tensors.erase(entry);
  }
  return bank_tables(model, tables);
}

/// Loads what `model` has memory for, from the tensors of `checkpoint`, and moves it.
void load_all_but_tables(GPT& model,
                         const std::filesystem::path& checkpoint,
                         TensorMap tensors,
                         c10::Device device) {
  for (const auto& [name, parameter] : module_state(*model)) {
    if (parameter.is_meta()) tensors[name] = parameter;
  }
  naming_path(checkpoint, [&] { load_parameters(*model, tensors, /*convert_dtype=*/true); });
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
  naming_path(run.checkpoint,
              [&] { load_parameters(*loaded.model, contents.model, /*convert_dtype=*/true); });
  loaded.model->to(device);
  return loaded;
}

DecodingModel load_decoding_model(const RunCheckpoint& run, c10::Device device, TablePlace place) {
  GPTOptions options = to_gpt_options(run.config, device.type());
  const bool tables_replace_values = value_cache_need(options.value) == ValueCacheNeed::token_ids;
  if (place != TablePlace::device && !tables_replace_values) {
    throw std::invalid_argument(
        run.run_folder.string() +
        ": this model keeps its values in a V cache, so no table is read in place of them that "
        "could be on the host or in the file; expected --tables device");
  }
  if (!tables_replace_values) {
    const RunModel loaded = load_run_model(run, device);
    return {loaded.model, make_device_bank_store({})};
  }
  if (place == TablePlace::file && !device.is_cpu()) {
    throw std::invalid_argument("tables stay in the file on the CPU alone; on " + device.str() +
                                " they can be on the host or the device");
  }
  options.bank_device = torch::kMeta;
  GPT model(options);
  if (place == TablePlace::device) {
    TensorMap tensors = load_checkpoint(run.checkpoint, CheckpointParts::model).model;
    BankTables tables = take_tables(model, tensors, device);
    load_all_but_tables(model, run.checkpoint, std::move(tensors), device);
    return {model, make_device_bank_store(std::move(tables))};
  }
  const std::filesystem::path file = run.checkpoint / kModelFile;
  load_all_but_tables(model, run.checkpoint, read_without_tables(file, model), device);
  BankTables tables = map_bank_tables(model, file);
  if (place == TablePlace::file) return {model, make_mapped_bank_store(std::move(tables))};
  return {model, std::make_shared<HostBankStore>(std::move(tables), device, options.table_dtype)};
}

}  // namespace bov::experiments
