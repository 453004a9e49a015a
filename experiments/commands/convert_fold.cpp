#include <yaml-cpp/yaml.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "bov/io/module_state.h"
#include "experiments/commands/convert_commands.h"
#include "experiments/commands/option_checks.h"
#include "experiments/config/field_text.h"
#include "experiments/config/run_options.h"
#include "experiments/convert/bank_run.h"
#include "experiments/convert/calibration.h"
#include "experiments/convert/converted_run.h"
#include "experiments/convert/tensor_checks.h"
#include "experiments/eval/run_evaluation.h"
#include "experiments/naming_path.h"
#include "experiments/runtime.h"
#include "experiments/train/training_run.h"

namespace bov::experiments {
namespace {

namespace fs = std::filesystem;

struct FoldArguments {
  std::string path;
  std::string out;
  std::string calibrate;
  int64_t calibrate_tokens = 1'000'000;
  std::string layers = "last_third";
  std::optional<int64_t> recover_tokens;
  std::string data;
  std::optional<int64_t> tokens;
  std::optional<int> threads;
  bool json = false;
};

/// "last_third", or "8,9,11".
TargetLayers parse_layers(const std::string& text) {
  TargetLayers layers;
  const bool is_list = text.find_first_not_of("0123456789, ") == std::string::npos;
  if (!parse_field(YAML::Load(is_list ? "[" + text + "]" : text), layers)) {
    throw std::runtime_error("--layers is \"" + text +
                             "\"; expected last_third, every_other, every, second_half, last_two_thirds or a "
                             "list as 8,9,11");
  }
  return layers;
}

/// Refuses by their name in the config the sources that cannot be folded as asked.
void check_source(const FoldArguments& arguments, const RunCheckpoint& run) {
  const std::string& source = run.config.value.source;
  const auto fail = [&](const std::string& problem) {
    throw std::runtime_error(run.run_folder.string() + ": its value source is '" + source + "', " + problem);
  };
  if (source == "bank") fail("which reads tables already");
  if (source == "stream" && arguments.calibrate.empty()) {
    fail("whose values depend on the context; --calibrate TEXT makes tables of their means over a text");
  }
}

/// The model of a checkpoint whose parameters are all finite. Takes the tensors out of `source`, not their names.
GPT take_model(const RunCheckpoint& run, CheckpointContents& source, c10::Device device) {
  check_finite(run.checkpoint, source.model);
  GPT model(to_gpt_options(run.config, device.type()));
  naming_path(run.checkpoint, [&] { load_parameters(*model, source.model, /*convert_dtype=*/true); });
  for (auto& [name, tensor] : source.model) tensor.reset();
  model->to(device);
  return model;
}

/// Tables of the mean values over the text, and what there was to see. The text's shards stand in the new folder `scratch`
/// meanwhile.
BankModel calibrate(ValueMeans& means,
                    const FoldArguments& arguments,
                    const RunCheckpoint& run,
                    c10::Device device,
                    const fs::path& scratch,
                    nlohmann::ordered_json& report) {
  const DataFolder data = calibration_data(run, arguments.calibrate, scratch);
  Progress progress(progress_style_of_stderr());
  int64_t quarters = 0;
  report["calibration_tokens"] = add_text(
      means, data, run.config, device, arguments.calibrate_tokens, [&](int64_t seen, int64_t wanted) {
        if (4 * seen / wanted == quarters) return;
        quarters = 4 * seen / wanted;
        progress.message("values of " + format_count(static_cast<double>(seen)) + " tokens seen");
      });
  fs::remove_all(scratch);
  report["rows_seen"] = means.rows_seen();
  report["rows_unseen"] = run.config.model.vocab_size - means.rows_seen();
  return means.bank_model();
}

/// Trains the run to its end and returns on how many tokens.
int64_t train(const RunCheckpoint& run) {
  const auto outcome =
      run_training({.config = run.config, .folder = run.run_folder, .progress = progress_style_of_stderr()});
  if (outcome.status == TrainingStatus::interrupted) {
    std::cerr << outcome.message << '\n';
    throw CLI::RuntimeError(128 + outcome.signal);  // as a shell reports a signal
  }
  if (outcome.status == TrainingStatus::diverged) throw std::runtime_error(outcome.message);
  return outcome.result.at("tokens");
}

void print(const nlohmann::ordered_json& report) {
  const auto bpb = [&](const char* key) { return report.at(key).get<double>(); };
  std::cout << report.at("checkpoint").get<std::string>() << ": tables in layers "
            << report.at("layers").dump() << '\n';
  if (report.contains("calibration_tokens")) {
    std::cout << "mean values over " << report["calibration_tokens"] << " tokens; " << report["rows_seen"]
              << " rows seen, " << report["rows_unseen"] << " filled with the mean over all tokens\n";
  }
  std::cout << "validation " << bpb("bits_per_byte_before") << " bits per byte before, "
            << bpb("bits_per_byte_after") << " after";
  if (report.contains("bits_per_byte_recovered")) {
    std::cout << ", " << bpb("bits_per_byte_recovered") << " after training on " << report["recover_tokens"]
              << " tokens";
  }
  std::cout << '\n';
}

/// Makes the new run from `run` and says in `report` what it is.
RunCheckpoint fold_run(const FoldArguments& arguments,
                       const RunCheckpoint& run,
                       const RunEvaluation& evaluation,
                       StagedFolder& out,
                       nlohmann::ordered_json& report) {
  auto source = load_checkpoint(run.checkpoint);
  GPT model = take_model(run, source, evaluation.device());
  // Either says at once what it cannot be made of; the long work comes when the model could be measured.
  BankModel banks;
  std::optional<ValueMeans> means;
  naming_path(run.checkpoint, [&] {
    if (arguments.calibrate.empty()) {
      banks = fold_into_banks(model);
    } else {
      means.emplace(model, parse_layers(arguments.layers));
    }
  });
  const ValidationResult before = evaluation.of(model);
  if (means) banks = calibrate(*means, arguments, run, evaluation.device(), out.path() / "text", report);
  report["layers"] = target_layers(banks.options.value, banks.options.n_layer);
  report["validation_tokens"] = before.tokens;
  report["bits_per_byte_before"] = before.bits_per_byte;
  RunConfig config = bank_run_config(run.config, banks, arguments.recover_tokens);
  // The recovery's own evaluations are to be those of this command.
  if (arguments.recover_tokens && arguments.tokens) config.evaluation.tokens = *arguments.tokens;
  return write_converted_run(out, config,
                             bank_checkpoint(std::move(source), banks, arguments.recover_tokens.has_value()),
                             run.checkpoint, run_environment(run.run_folder));
}

void fold(const FoldArguments& arguments) {
  prepare_computation(arguments.threads);
  StagedFolder out(arguments.out);
  const RunCheckpoint run = find_checkpoint(arguments.path);
  check_source(arguments, run);
  RunCheckpoint measured = run;
  if (!arguments.data.empty()) measured.config.data.shards = arguments.data;
  if (arguments.tokens) measured.config.evaluation.tokens = *arguments.tokens;
  const RunEvaluation evaluation(measured);
  // What the recovery trains on is found before anything is computed.
  if (arguments.recover_tokens) DataFolder::open(run.config.data.shards);
  nlohmann::ordered_json report;
  RunCheckpoint folded = fold_run(arguments, run, evaluation, out, report);
  report["bits_per_byte_after"] = evaluation.of(folded).bits_per_byte;
  if (arguments.recover_tokens) {
    report["recover_tokens"] = train(folded);
    folded = find_checkpoint(folded.run_folder);
    report["bits_per_byte_recovered"] = evaluation.of(folded).bits_per_byte;
  }
  report["checkpoint"] = folded.checkpoint.string();
  if (arguments.json) {
    std::cout << report.dump(2) << '\n';
  } else {
    print(report);
  }
}

}  // namespace

void add_convert_fold(CLI::App& convert) {
  auto arguments = std::make_shared<FoldArguments>();
  auto* command = convert.add_subcommand("fold", "Values of the target layers as tables, one row a token id");
  command->footer(
      "Without --calibrate the model computes the same as before: its value source must be embedding or\n"
      "first_layer, without smear. With it a standard model gets tables of its mean values, to go on from.\n"
      "Examples: bov convert fold runs/no_smear --out runs/folded\n"
      "          bov convert fold runs/standard --out runs/means --calibrate shards --recover-tokens 65536");
  command
      ->add_option("CHECKPOINT", arguments->path,
                   "Checkpoint (RUN/checkpoints/step-N) or run folder: its newest")
      ->required()
      ->check(CLI::ExistingDirectory);
  command->add_option("--out", arguments->out, "Run folder to make")->required();
  auto* calibrate_option = command->add_option("--calibrate", arguments->calibrate,
                                               "Text to take mean values from: .txt, .jsonl, either with "
                                               ".gz, or a folder of token shards (training split)");
  calibrate_option->check(CLI::ExistingPath);
  command
      ->add_option("--calibrate-tokens", arguments->calibrate_tokens,
                   "Tokens of that text, 0: as many as it has")
      ->check(count_from(0))
      ->capture_default_str()
      ->needs(calibrate_option);
  command->add_option("--layers", arguments->layers, "Layers that get tables: a rule, or a list as 8,9,11")
      ->capture_default_str()
      ->needs(calibrate_option);
  command
      ->add_option("--recover-tokens", arguments->recover_tokens,
                   "Train the new run on so many tokens (to the nearest whole step), at the run's rates and "
                   "where its data stand")
      ->check(count_from(1));
  command->add_option("--data", arguments->data, "Folder of token shards to measure on (default: the run's)")
      ->check(CLI::ExistingDirectory);
  command
      ->add_option("--tokens", arguments->tokens,
                   "Places for validation targets, 0: the whole split (default: the run's)")
      ->check(count_from(0));
  command
      ->add_option("--threads", arguments->threads,
                   "Computing threads (default: OMP_NUM_THREADS, or the cores)")
      ->check(thread_count());
  command->add_flag("--json", arguments->json, "Print the numbers as JSON");
  command->callback([arguments] { fold(*arguments); });
}

}  // namespace bov::experiments
