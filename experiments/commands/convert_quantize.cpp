#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "bov/decode/bank_store.h"
#include "bov/decode/bank_table.h"
#include "bov/io/checkpoint.h"
#include "experiments/commands/convert_commands.h"
#include "experiments/commands/option_checks.h"
#include "experiments/config/run_options.h"
#include "experiments/convert/converted_run.h"
#include "experiments/convert/tensor_checks.h"
#include "experiments/eval/run_evaluation.h"
#include "experiments/runtime.h"

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

/// Every bank among the tensors of the model becomes int8 rows and their scales.
TableSizes quantize_tables(TensorMap& tensors, const RunConfig& config) {
  const GPTOptions options = to_gpt_options(config, torch::kCPU);
  TableSizes sizes;
  for (int64_t layer = 0; layer < options.n_layer; ++layer) {
    const std::string name = bank_name(options, layer);
    const auto entry = tensors.find(name + ".table");
    if (entry == tensors.end() || entry->second.scalar_type() == torch::kInt8) continue;
    const BankTable quantized = quantize_rows(entry->second);
    sizes.before += entry->second.nbytes();
    sizes.after += quantized.rows.nbytes() + quantized.row_scale->nbytes();
    entry->second = quantized.rows;
    tensors[name + ".row_scale"] = *quantized.row_scale;
  }
  return sizes;
}

/// Says by the names of the tensors why there would be nothing to quantize.
void check_tables(const RunCheckpoint& run, const TensorMap& tensors) {
  const auto any = [&](const char* ending) {
    return std::ranges::any_of(tensors, [&](const auto& entry) { return entry.first.ends_with(ending); });
  };
  if (any(".row_scale")) {
    throw std::runtime_error(run.checkpoint.string() + ": its tables are int8 already");
  }
  if (!any(".table")) {
    throw std::runtime_error(run.checkpoint.string() +
                             ": there is no table to quantize; the run's value source is '" +
                             run.config.value.source + "', expected 'bank'");
  }
}

void quantize(const QuantizeArguments& arguments) {
  prepare_computation(arguments.threads);
  StagedFolder out(arguments.out);
  const RunCheckpoint run = find_checkpoint(arguments.path);
  RunCheckpoint measured = run;
  if (!arguments.data.empty()) measured.config.data.shards = arguments.data;
  if (!arguments.device.empty()) measured.config.train.device = arguments.device;
  if (arguments.tokens) measured.config.evaluation.tokens = *arguments.tokens;
  const RunEvaluation evaluation(measured);

  auto contents = load_checkpoint(run.checkpoint, CheckpointParts::model);
  check_tables(run, contents.model);
  check_finite(run.checkpoint, contents.model);
  const TableSizes sizes = quantize_tables(contents.model, run.config);
  const double before = evaluation.of(run).bits_per_byte;
  const RunCheckpoint quantized = write_converted_run(out, run.config, std::move(contents), run.checkpoint,
                                                      run_environment(run.run_folder));
  const double after = evaluation.of(quantized).bits_per_byte;
  const std::string checkpoint = quantized.checkpoint.string();
  if (arguments.json) {
    const nlohmann::ordered_json json = {{"checkpoint", checkpoint},
                                         {"table_bytes_before", sizes.before},
                                         {"table_bytes_after", sizes.after},
                                         {"bits_per_byte_before", before},
                                         {"bits_per_byte_after", after}};
    std::cout << json.dump(2) << '\n';
    return;
  }
  std::cout << checkpoint << ": tables of " << sizes.before << " bytes in " << sizes.after << "; validation "
            << before << " bits per byte before, " << after << " after (" << std::showpos << after - before
            << std::noshowpos << ")\n";
}

}  // namespace

void add_convert_quantize(CLI::App& convert) {
  auto arguments = std::make_shared<QuantizeArguments>();
  auto* quantize_command =
      convert.add_subcommand("quantize", "Banks as int8 rows with a scale each; what it costs is measured");
  quantize_command->footer(
      "The new run folder works with bov generate, which reads the int8 rows wherever they are, and bov "
      "eval,\n"
      "which multiplies them out.\n"
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
