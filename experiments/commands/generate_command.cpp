#include <CLI/CLI.hpp>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "experiments/commands/commands.h"
#include "experiments/commands/long_window_option.h"
#include "experiments/commands/option_checks.h"
#include "experiments/config/run_options.h"
#include "experiments/generate/text_generation.h"
#include "experiments/runtime.h"
#include "experiments/train/run_folder.h"

namespace bov::experiments {
namespace {

const std::map<std::string, TablePlace> kTablePlaces{
    {"device", TablePlace::device}, {"host", TablePlace::host}, {"file", TablePlace::file}};
const std::map<std::string, ops::BankAlgorithm> kAlgorithms{{"automatic", ops::BankAlgorithm::automatic},
                                                            {"indirect", ops::BankAlgorithm::indirect},
                                                            {"aggregated", ops::BankAlgorithm::aggregated}};

struct GenerateArguments {
  std::string checkpoint;
  std::string prompt;
  std::string prompt_file;
  std::string tokenizer;
  std::string device;
  std::optional<int> threads;
  TablePlace tables = TablePlace::device;
  DecoderOptions decoder;
  GenerateOptions generate;
  bool json = false;
};

std::string read_prompt(const GenerateArguments& arguments) {
  if (arguments.prompt_file.empty()) return arguments.prompt;
  std::ifstream file(arguments.prompt_file, std::ios::binary);
  if (!file) throw std::runtime_error("cannot open " + arguments.prompt_file);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

void generate_command(const GenerateArguments& arguments) {
  prepare_computation(arguments.threads);
  RunCheckpoint run = find_checkpoint(arguments.checkpoint);
  if (!arguments.device.empty()) run.config.train.device = arguments.device;
  const std::string prompt = read_prompt(arguments);
  const Tokenizer tokenizer = run_tokenizer(
      run,
      arguments.tokenizer.empty() ? std::nullopt : std::optional<std::filesystem::path>(arguments.tokenizer));
  if (!recorded_tokenizer(run.run_folder)) {
    std::cerr << "bov: warning: " << run.run_folder.string()
              << " does not record its tokenizer, so this may be another one; text makes sense with the "
                 "right one alone\n";
  }
  DecodingModel loaded = load_decoding_model(run, resolve_device(run.config.train), arguments.tables);
  Decoder decoder(loaded.model, arguments.decoder, loaded.banks);

  // One sample is shown as it comes; several would mix, so each is shown when all are done.
  const bool stream = arguments.generate.samples == 1 && !arguments.json;
  // What is wrong with the prompt is found before the first token, so the prompt is shown with it.
  std::string unseen = stream ? prompt : "";
  const TextGeneration result =
      generate_text(decoder, tokenizer, prompt, arguments.generate, [&](int64_t, std::string_view text) {
        if (stream) std::cout << std::exchange(unseen, "") << text << std::flush;
        // Nobody reads what a closed pipe or a full disk has refused.
        return std::cout.good();
      });
  std::cout << unseen;
  const BankBytes banks = decoder.banks().bytes();
  if (arguments.json) {
    auto json = to_json(result.generation, banks);
    json["prompt"] = prompt;
    json["texts"] = result.texts;
    json["tokens"] = result.generation.sequences;
    std::cout << json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
    return;
  }
  if (!stream) {
    for (size_t i = 0; i < result.texts.size(); ++i) {
      std::cout << "--- sample " << i << "\n" << prompt << result.texts[i] << '\n';
    }
  }
  std::cout << '\n' << std::flush;
  std::cerr << to_text(result.generation, banks) << '\n';
}

}  // namespace

void add_generate_command(CLI::App& app) {
  auto arguments = std::make_shared<GenerateArguments>();
  auto* command = app.add_subcommand("generate", "Continue a text with a checkpoint, token by token");
  command->footer(
      "Text goes to standard output as it is decoded, speed and memory to standard error.\n"
      "Example: bov generate --checkpoint runs/quickstart/bov/seed-1 --prompt \"It was\" --temperature 0.8");
  command
      ->add_option("--checkpoint", arguments->checkpoint,
                   "Checkpoint (RUN/checkpoints/step-N) or run folder: its newest")
      ->required()
      ->check(CLI::ExistingDirectory);
  auto* prompt = command->add_option("--prompt", arguments->prompt, "Text to go on from");
  auto* prompt_file = command->add_option("--prompt-file", arguments->prompt_file, "The same from a file");
  prompt_file->check(CLI::ExistingFile)->excludes(prompt);
  command
      ->add_option("--tokenizer", arguments->tokenizer,
                   "Folder of the run's tokenizer (default: beside the run's data)")
      ->check(CLI::ExistingDirectory);
  GenerateOptions& generate = arguments->generate;
  command->add_option("--max-new-tokens", generate.max_new_tokens, "Tokens of each sample at most")
      ->check(count_from(1))
      ->capture_default_str();
  command->add_option("--max-length", generate.max_length, "Tokens of prompt and sample together at most")
      ->check(count_from(1))
      ->capture_default_str();
  command->add_option("--samples", generate.samples, "Continuations of the prompt, which is read once")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  command->add_option("--seed", generate.seed, "Sample i draws with seed + i")
      ->check(seed_number())
      ->capture_default_str();
  command
      ->add_option("--temperature", generate.sampling.temperature,
                   "Divides the logits; 0: always the likeliest token")
      ->check(real_between(0.0, 1000.0))
      ->capture_default_str();
  command->add_option("--top-k", generate.sampling.top_k, "Only the k likeliest tokens; 0: all")
      ->check(count_from(0))
      ->capture_default_str();
  command->add_option("--top-p", generate.sampling.top_p, "Only the likeliest tokens of this probability")
      ->check(real_between(0.0, 1.0))
      ->capture_default_str();
  command
      ->add_option("--prefill-chunk", generate.prefill_chunk,
                   "Tokens of the prompt in one pass: less memory, more passes")
      ->check(count_from(1))
      ->capture_default_str();
  command->add_option("--tables", arguments->tables, "Where banks are: device, host or file (mapped)")
      ->transform(CLI::CheckedTransformer(kTablePlaces))
      ->default_str("device");
  add_long_window_option(*command, arguments->decoder.long_window);
  command
      ->add_option("--algorithm", arguments->decoder.algorithm,
                   "How bank rows are summed: automatic, indirect or aggregated")
      ->transform(CLI::CheckedTransformer(kAlgorithms))
      ->default_str("automatic");
  command->add_option("--device", arguments->device, "auto, cpu, cuda or cuda:N (default: the run's)")
      ->check(device_text());
  command
      ->add_option("--threads", arguments->threads,
                   "Computing threads (default: OMP_NUM_THREADS, or the cores)")
      ->check(thread_count());
  command->add_flag("--json", arguments->json, "Print text, tokens and numbers as JSON");
  command->callback([arguments, prompt, prompt_file] {
    if (prompt->count() + prompt_file->count() == 0) throw CLI::RequiredError("--prompt or --prompt-file");
    generate_command(*arguments);
  });
}

}  // namespace bov::experiments
