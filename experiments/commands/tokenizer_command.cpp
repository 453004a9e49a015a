#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "experiments/commands/commands.h"
#include "experiments/commands/option_checks.h"
#include "experiments/data/document_reader.h"
#include "experiments/tokenizer/tokenizer_training.h"

namespace bov::experiments {
namespace {

struct TokenizerArguments {
  std::vector<std::string> inputs;
  std::string output;
  ReaderOptions reading;
  TokenizerTrainingOptions training;
  bool json = false;
};

void print_report(const TokenizerArguments& arguments, const TokenizerTrainingReport& report) {
  if (arguments.json) {
    std::cout << to_json(report).dump(2) << '\n';
    return;
  }
  std::cout << "learned " << arguments.training.vocab_size << " ids from " << report.documents
            << " documents, " << report.bytes << " bytes (" << report.unlearnable_bytes
            << " of them always spelled in bytes)\n"
            << "held out for validation: " << report.held_out_documents
            << " documents; skipped: " << report.read.empty << " empty documents, " << report.read.invalid
            << " invalid lines\n";
  if (report.stopped_at_max_bytes) {
    std::cout << "stopped at --max-bytes " << arguments.training.max_bytes
              << "; the rest of the input was not read\n";
  }
  std::cout << "wrote " << arguments.output << '\n';
}

void train(const TokenizerArguments& arguments) {
  DocumentReader documents(arguments.inputs, arguments.reading);
  print_report(arguments, train_tokenizer(documents, arguments.training, arguments.output));
}

}  // namespace

void add_tokenizer_command(CLI::App& app) {
  auto arguments = std::make_shared<TokenizerArguments>();
  auto* group = app.add_subcommand("tokenizer", "Train tokenizers");
  group->require_subcommand(1);
  auto* command = group->add_subcommand("train", "Learn a byte-exact SentencePiece BPE vocabulary from text");
  command->footer(
      "Example: bov tokenizer train --input corpus/quick/text.jsonl --vocab-size 4096 --output "
      "corpus/tokenizer");
  command
      ->add_option("--input", arguments->inputs,
                   "Text: .txt, .jsonl, either with .gz, or - for JSON lines on standard input")
      ->required();
  command->add_option("--output", arguments->output, "Folder of the tokenizer, made by this command")
      ->required();
  command
      ->add_option("--vocab-size", arguments->training.vocab_size,
                   "Ids: bos, 256 bytes and the learned pieces")
      ->check(CLI::Range(kSmallestVocabulary + 1, kLargestVocabulary))
      ->capture_default_str();
  command
      ->add_option("--max-bytes", arguments->training.max_bytes,
                   "Read no further document once this much text was read")
      ->check(count_from(1))
      ->capture_default_str();
  command
      ->add_option("--character-coverage", arguments->training.character_coverage,
                   "Share of the characters that get a piece of their own")
      ->check(real_between(0.9, 1.0))
      ->capture_default_str();
  command
      ->add_option("--validation-per-mille", arguments->training.validation_per_mille,
                   "Do not learn from these documents: must equal that of `bov data build`")
      ->check(validation_share())
      ->capture_default_str();
  command->add_flag("--skip-invalid", arguments->reading.skip_invalid,
                    "Count invalid JSON lines instead of stopping");
  command->add_flag("--json", arguments->json, "Print the counts as JSON");
  command->callback([arguments] { train(*arguments); });
}

}  // namespace bov::experiments
