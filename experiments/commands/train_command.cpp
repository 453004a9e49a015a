#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include "experiments/commands/commands.h"
#include "experiments/commands/computing_options.h"
#include "experiments/config/yaml_config.h"
#include "experiments/runtime.h"
#include "experiments/train/train_profile.h"
#include "experiments/train/training_run.h"

namespace bov::experiments {
namespace {

struct TrainArguments {
  std::string config;
  std::string run_dir;
  std::string device;
  bool fresh = false;
  bool quiet = false;
  bool json = false;
  std::optional<int> threads;
  std::optional<int64_t> profile_steps;
};

ProgressStyle progress_style(bool quiet) {
  return quiet ? ProgressStyle::none : progress_style_of_stderr();
}

void print_profile(const RunConfig& config, const TrainArguments& arguments) {
  const auto profile = profile_training(config, *arguments.profile_steps, arguments.device);
  std::cout << (arguments.json ? to_json(profile).dump(2) + '\n' : to_text(profile));
}

void print_outcome(const TrainingOutcome& outcome, bool json) {
  if (json) {
    std::cout << outcome.result.dump(2) << '\n';
    return;
  }
  std::cout << outcome.message << '\n';
  if (outcome.result.contains("validation_bpb")) {
    std::cout << "validation " << outcome.result["validation_bpb"].get<double>() << " bits per byte after "
              << outcome.result["step"] << " steps\n";
  }
}

void train(const TrainArguments& arguments) {
  prepare_computation(arguments.threads);
  const auto config = load_run_config(arguments.config);
  if (arguments.profile_steps) return print_profile(config, arguments);
  const std::filesystem::path folder(arguments.run_dir.empty() ? "runs/" + config.name : arguments.run_dir);
  const auto outcome = run_training({.config = config,
                                     .folder = folder,
                                     .fresh = arguments.fresh,
                                     .device = arguments.device,
                                     .progress = progress_style(arguments.quiet)});
  switch (outcome.status) {
    case TrainingStatus::completed:
      return print_outcome(outcome, arguments.json);
    case TrainingStatus::interrupted:
      std::cerr << outcome.message << '\n';
      throw CLI::RuntimeError(128 + outcome.signal);  // as a shell reports a signal
    case TrainingStatus::diverged:
      throw std::runtime_error(outcome.message);
  }
}

}  // namespace

void add_train_command(CLI::App& app) {
  auto arguments = std::make_shared<TrainArguments>();
  auto* command = app.add_subcommand("train", "Train one config; go on where an earlier start of it stopped");
  command->footer(
      "Ctrl-C or SIGTERM writes a checkpoint and stops (status 130 or 143); the same command goes on.\n"
      "Example: bov train experiments/configs/cpu/bov.yaml --run-dir runs/first");
  command->add_option("CONFIG", arguments->config, "YAML file of the run")
      ->required()
      ->check(CLI::ExistingFile);
  command->add_option("--run-dir", arguments->run_dir, "Folder of the run (default: runs/NAME)");
  command->add_flag("--fresh", arguments->fresh,
                    "Remove what an earlier run left in the folder and start anew");
  add_device_option(*command, arguments->device, ", where the config says auto");
  add_threads_option(*command, arguments->threads);
  command->add_flag("--quiet", arguments->quiet, "Show no progress");
  command->add_flag("--json", arguments->json, "Print the result as JSON on standard output");
  command
      ->add_option("--profile", arguments->profile_steps,
                   "Only measure: speed of N steps and time by operator of N more; writes nothing")
      ->check(CLI::Range(1, 1'000'000));
  command->callback([arguments] { train(*arguments); });
}

}  // namespace bov::experiments
