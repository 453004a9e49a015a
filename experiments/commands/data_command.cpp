#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "experiments/commands/commands.h"
#include "experiments/commands/option_checks.h"
#include "experiments/data/data_builder.h"
#include "experiments/data/data_folder.h"

namespace bov::experiments {
namespace {

struct BuildArguments {
  std::vector<std::string> inputs;
  std::string output;
  ReaderOptions reading;
  DataBuildOptions building;
  bool json = false;
};

struct InfoArguments {
  std::string folder;
  bool verify = false;
  bool json = false;
};

void print_split(const std::string& name, const nlohmann::json& split) {
  const auto tokens = split["tokens"].get<int64_t>();
  const auto bytes = split["bytes"].get<int64_t>();
  std::cout << std::left << std::setw(11) << name << split["documents"] << " documents, " << bytes
            << " bytes, " << tokens << " tokens, " << split["shards"].size() << " shards";
  if (tokens > 0) {
    std::cout << ", " << std::fixed << std::setprecision(3)
              << static_cast<double>(bytes) / static_cast<double>(tokens) << " bytes a token";
  }
  std::cout << '\n';
}

void print_manifest(const nlohmann::json& manifest, bool json) {
  if (json) {
    std::cout << manifest.dump(2) << '\n';
    return;
  }
  print_split("train", manifest["train"]);
  print_split("validation", manifest["validation"]);
  const nlohmann::json& skipped = manifest["read"]["skipped"];
  std::cout << "skipped    " << skipped["empty"] << " empty documents, " << skipped["invalid"]
            << " invalid lines (" << skipped["invalid_bytes"] << " bytes)\n"
            << "tokenizer  " << manifest["tokenizer"]["hash"].get<std::string>() << ", "
            << manifest["tokenizer"]["vocab_size"] << " ids\n";
}

void build(const BuildArguments& arguments) {
  std::error_code absent;
  if (std::filesystem::equivalent(arguments.output, arguments.building.tokenizer, absent)) {
    throw std::runtime_error("--output '" + arguments.output +
                             "' is the tokenizer's folder; expected another one");
  }
  DocumentReader documents(arguments.inputs, arguments.reading);
  print_manifest(build_data(documents, arguments.building, arguments.output), arguments.json);
}

void info(const InfoArguments& arguments) {
  const DataFolder folder = DataFolder::open(arguments.folder);
  if (arguments.verify) folder.verify();
  print_manifest(folder.manifest(), arguments.json);
  if (arguments.verify && !arguments.json) std::cout << "every checksum agrees\n";
}

void add_build(CLI::App& group) {
  auto arguments = std::make_shared<BuildArguments>();
  arguments->building.threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  auto* command =
      group.add_subcommand("build", "Encode text into token shards with a train and a validation split");
  command->footer(
      "A .txt file is one document, unless lines that are exactly <|endoftext|> separate several.\n"
      "Example: bov data build --tokenizer corpus/tokenizer --input corpus/quick/text.jsonl --output "
      "corpus/shards");
  command->add_option("--tokenizer", arguments->building.tokenizer, "Folder made by `bov tokenizer train`")
      ->required();
  command
      ->add_option("--input", arguments->inputs,
                   "Text: .txt, .jsonl, either with .gz, or - for JSON lines on standard input")
      ->required();
  command->add_option("--output", arguments->output, "Folder of the shards, made by this command")
      ->required();
  command
      ->add_option("--validation-per-mille", arguments->building.validation_per_mille,
                   "Thousandths of the documents kept for validation, chosen by their hash")
      ->check(validation_share())
      ->capture_default_str();
  command->add_option("--shard-tokens", arguments->building.shard_tokens, "Tokens a shard")
      ->check(count_from(1))
      ->capture_default_str();
  command
      ->add_option("--threads", arguments->building.threads,
                   "Encoding threads; the result is the same for any number")
      ->check(thread_count())
      ->capture_default_str();
  command->add_flag("--skip-invalid", arguments->reading.skip_invalid,
                    "Count invalid JSON lines instead of stopping");
  command->add_flag("--json", arguments->json, "Print the manifest as JSON");
  command->callback([arguments] { build(*arguments); });
}

void add_info(CLI::App& group) {
  auto arguments = std::make_shared<InfoArguments>();
  auto* command = group.add_subcommand("info", "Show what a folder of token shards holds");
  command->footer("Example: bov data info corpus/shards --verify");
  command->add_option("DIR", arguments->folder, "Folder made by `bov data build`")->required();
  command->add_flag("--verify", arguments->verify, "Read every shard and compare its checksum");
  command->add_flag("--json", arguments->json, "Print the manifest as JSON");
  command->callback([arguments] { info(*arguments); });
}

}  // namespace

void add_data_command(CLI::App& app) {
  auto* group = app.add_subcommand("data", "Make and inspect token shards");
  group->require_subcommand(1);
  add_build(*group);
  add_info(*group);
}

}  // namespace bov::experiments
