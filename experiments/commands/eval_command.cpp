#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "experiments/commands/commands.h"
#include "experiments/commands/option_checks.h"
#include "experiments/eval/run_evaluation.h"
#include "experiments/runtime.h"

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

  const RunEvaluation evaluation(run);
  RunModel loaded = load_run_model(run, evaluation.device());
  print(evaluation.of(loaded.model), loaded.step, arguments.json);
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
