#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "experiments/commands/commands.h"
#include "experiments/commands/option_checks.h"
#include "experiments/config/run_options.h"
#include "experiments/eval/validation.h"
#include "experiments/runtime.h"
#include "experiments/train/run_folder.h"
#include "experiments/train/run_model.h"
#include "experiments/train/trainer.h"

namespace bov::experiments {
namespace {

struct EvalArguments {
  std::string path;
  std::string data;
  std::string device;
  std::optional<int64_t> tokens;
  std::optional<int> threads;
  bool json = false;
};

/// Ids of another tokenizer mean nothing to the model.
void check_tokenizer(const std::filesystem::path& run_folder, const DataFolder& data) {
  const nlohmann::json recorded = recorded_data(run_folder);
  const auto trained =
      recorded.is_object() ? recorded.value("tokenizer", nlohmann::json()) : nlohmann::json();
  const auto given = data.identity().at("tokenizer");
  if (trained.is_null() || trained == given) return;
  throw std::runtime_error(run_folder.string() + " was trained with tokenizer " + trained.dump() +
                           ", but the data are of tokenizer " + given.dump());
}

void print(const ValidationResult& result, int64_t step, bool json) {
  const nlohmann::json numbers = {{"step", step},
                                  {"validation_bpb", result.bits_per_byte},
                                  {"validation_loss", result.loss},
                                  {"validation_tokens", result.tokens},
                                  {"validation_bytes", result.bytes}};
  if (json) {
    std::cout << numbers.dump(2) << '\n';
    return;
  }
  std::cout << "step " << step << ": " << result.bits_per_byte << " bits per byte, " << result.loss
            << " nats per token over " << result.tokens << " tokens, " << result.bytes << " bytes\n";
}

void eval(const EvalArguments& arguments) {
  prepare_computation(arguments.threads);
  RunCheckpoint run = find_checkpoint(arguments.path);
  if (!arguments.data.empty()) run.config.data.shards = arguments.data;
  if (!arguments.device.empty()) run.config.train.device = arguments.device;
  if (arguments.tokens) run.config.evaluation.tokens = *arguments.tokens;

  const auto device = resolve_device(run.config.train);
  const auto data = DataFolder::open(run.config.data.shards);
  data.verify_if_quick();
  check_tokenizer(run.run_folder, data);
  RunModel loaded = load_run_model(run, device);
  print(*evaluate(loaded.model, data, device, validation_options(run.config)), loaded.step, arguments.json);
}

}  // namespace

void add_eval_command(CLI::App& app) {
  auto arguments = std::make_shared<EvalArguments>();
  auto* command = app.add_subcommand("eval", "Bits per byte of a checkpoint on the validation split");
  command->footer("Example: bov eval runs/quickstart/bov/seed-1 --tokens 0");
  command
      ->add_option("CHECKPOINT", arguments->path,
                   "Checkpoint (RUN/checkpoints/step-N) or run folder: its newest")
      ->required()
      ->check(CLI::ExistingDirectory);
  command->add_option("--data", arguments->data, "Folder of token shards (default: the run's)")
      ->check(CLI::ExistingDirectory);
  command
      ->add_option("--tokens", arguments->tokens,
                   "Places for targets, 0: the whole split (default: the run's)")
      ->check(count_from(0));
  command->add_option("--device", arguments->device, "auto, cpu, cuda or cuda:N (default: the run's)")
      ->check(device_text());
  command
      ->add_option("--threads", arguments->threads,
                   "Computing threads (default: OMP_NUM_THREADS, or the cores)")
      ->check(thread_count());
  command->add_flag("--json", arguments->json, "Print the numbers as JSON");
  command->callback([arguments] { eval(*arguments); });
}

}  // namespace bov::experiments
