#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>

#include "bov/decode/bank_table.h"
#include "bov/io/atomic_file.h"
#include "bov/io/checkpoint.h"
#include "experiments/commands/convert_commands.h"
#include "experiments/commands/option_checks.h"
#include "experiments/config/run_options.h"
#include "experiments/eval/validation.h"
#include "experiments/runtime.h"
#include "experiments/staged_folder.h"
#include "experiments/train/run_files.h"
#include "experiments/train/run_model.h"
#include "experiments/train/trainer.h"

namespace bov::experiments {
namespace {

struct QuantizeArguments {
  std::string path;
  std::string out;
  std::string data;
  std::string device;
  std::optional<int64_t> tokens;
  std::optional<int> threads;
  bool json = false;
};

/// Bytes of the tables before and after.
struct TableSizes {
  size_t before = 0;
  size_t after = 0;
};

/// Every bank among `tensors` becomes int8 rows and their scales.
TableSizes quantize_tables(TensorMap& tensors, const GPTOptions& options) {
  TableSizes sizes;
  for (int64_t layer = 0; layer < options.n_layer; ++layer) {
    const std::string name = bank_name(options, layer);
    const auto entry = tensors.find(name + ".table");
    if (entry == tensors.end() || tensors.contains(name + ".row_scale")) continue;
    const BankTable quantized = quantize_rows(entry->second);
    sizes.before += entry->second.nbytes();
    sizes.after += quantized.rows.nbytes() + quantized.row_scale->nbytes();
    entry->second = quantized.rows;
    tensors[name + ".row_scale"] = *quantized.row_scale;
  }
  if (sizes.before == 0) throw std::runtime_error("the checkpoint has no table of float rows to quantize");
  return sizes;
}

/// Config and environment are the run's, so that the new folder is a run of its own.
void copy_run_files(const std::filesystem::path& from, const std::filesystem::path& to) {
  for (const char* name : {kRunConfigFile, kRunEnvironmentFile}) {
    std::ifstream file(from / name, std::ios::binary);
    if (file) atomic_write_text(to / name, std::string(std::istreambuf_iterator<char>(file), {}));
  }
}

double bits_per_byte(const RunCheckpoint& run, const DataFolder& data) {
  const c10::Device device = resolve_device(run.config.train);
  RunModel loaded = load_run_model(run, device);
  return evaluate(loaded.model, data, device, validation_options(run.config))->bits_per_byte;
}

void quantize(const QuantizeArguments& arguments) {
  prepare_computation(arguments.threads);
  RunCheckpoint run = find_checkpoint(arguments.path);
  if (!arguments.data.empty()) run.config.data.shards = arguments.data;
  if (!arguments.device.empty()) run.config.train.device = arguments.device;
  if (arguments.tokens) run.config.evaluation.tokens = *arguments.tokens;
  StagedFolder out(arguments.out);

  const DataFolder data = DataFolder::open(run.config.data.shards);
  auto contents = load_checkpoint(run.checkpoint, CheckpointParts::model);
  const GPTOptions options = to_gpt_options(run.config, resolve_device(run.config.train).type());
  const TableSizes sizes = quantize_tables(contents.model, options);
  copy_run_files(run.run_folder, out.path());
  RunCheckpoint quantized{.run_folder = out.path(), .config = run.config};
  quantized.checkpoint = save_checkpoint(out.path() / kRunCheckpointFolder, contents);

  const double before = bits_per_byte(run, data), after = bits_per_byte(quantized, data);
  out.publish();
  const auto checkpoint =
      std::filesystem::path(arguments.out) / kRunCheckpointFolder / quantized.checkpoint.filename();
  if (arguments.json) {
    const nlohmann::ordered_json json = {{"checkpoint", checkpoint.string()},
                                         {"table_bytes_before", sizes.before},
                                         {"table_bytes_after", sizes.after},
                                         {"bits_per_byte_before", before},
                                         {"bits_per_byte_after", after}};
    std::cout << json.dump(2) << '\n';
    return;
  }
  std::cout << checkpoint.string() << ": tables of " << sizes.before << " bytes in " << sizes.after
            << "; validation " << before << " bits per byte before, " << after << " after (" << std::showpos
            << after - before << std::noshowpos << ")\n";
}

}  // namespace

void add_convert_quantize(CLI::App& convert) {
  auto arguments = std::make_shared<QuantizeArguments>();
  auto* quantize_command =
      convert.add_subcommand("quantize", "Banks as int8 rows with a scale each; what it costs is measured");
  quantize_command->footer(
      "The new run folder works with bov generate, which reads the int8 rows wherever they are, and bov "
      "eval,\n"
      "which multiplies them out. It appears when all is measured.\n"
      "Example: bov convert quantize runs/quickstart/bov/seed-1 --out runs/bov-int8");
  quantize_command
      ->add_option("CHECKPOINT", arguments->path,
                   "Checkpoint (RUN/checkpoints/step-N) or run folder: its newest")
      ->required()
      ->check(CLI::ExistingDirectory);
  quantize_command->add_option("--out", arguments->out, "Run folder to make")->required();
  quantize_command
      ->add_option("--data", arguments->data, "Folder of token shards to measure on (default: the run's)")
      ->check(CLI::ExistingDirectory);
  quantize_command
      ->add_option("--tokens", arguments->tokens,
                   "Places for targets, 0: the whole split (default: the run's)")
      ->check(count_from(0));
  quantize_command
      ->add_option("--device", arguments->device,
                   "auto, cpu, cuda or cuda:N to measure on (default: the run's)")
      ->check(device_text());
  quantize_command
      ->add_option("--threads", arguments->threads,
                   "Computing threads (default: OMP_NUM_THREADS, or the cores)")
      ->check(thread_count());
  quantize_command->add_flag("--json", arguments->json, "Print the numbers as JSON");
  quantize_command->callback([arguments] { quantize(*arguments); });
}

}  // namespace bov::experiments
