#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "bov/io/atomic_file.h"
#include "experiments/commands/convert_commands.h"
#include "experiments/config/run_options.h"
#include "experiments/config/yaml_config.h"
#include "experiments/convert/converted_run.h"
#include "experiments/convert/published_model.h"
#include "experiments/staged_folder.h"

namespace bov::experiments {
namespace {

struct ExportArguments {
  std::string path;
  std::string out;
};

struct ImportArguments {
  std::string file;
  std::string config;
  std::string prefix;
  std::string out;
};

/// Refuses a name under which no file can be made, before anything is read.
void check_new_file(const std::string& path) {
  check_new_path(path);
  const AtomicFile probe(path);
}

void export_model(const ExportArguments& arguments) {
  check_new_file(arguments.out);
  const size_t count = write_published(find_checkpoint(arguments.path), arguments.out);
  std::cout << arguments.out << ": " << count << " tensors under published names\n";
}

void import_model(const ImportArguments& arguments) {
  StagedFolder out(arguments.out);
  const RunConfig config = load_run_config(arguments.config);
  const c10::Device device = resolve_device(config.train);
  auto model = read_published(arguments.file, arguments.prefix, to_gpt_options(config, device.type()));
  const size_t count = model.parameters.size();
  const RunCheckpoint run =
      write_converted_run(out, config, {.model = std::move(model.parameters)}, arguments.file);
  std::cout << run.checkpoint.string() << ": " << count << " parameters";
  if (!model.dropped.empty())
    std::cout << "; " << model.dropped.size() << " that no forward pass reads left out";
  std::cout << '\n';
}

}  // namespace

void add_convert_export(CLI::App& convert) {
  auto arguments = std::make_shared<ExportArguments>();
  auto* command = convert.add_subcommand("export", "A model as safetensors under the published code's names");
  command->footer("Example: bov convert export runs/quickstart/bov/seed-1 --out bov.safetensors");
  command
      ->add_option("CHECKPOINT", arguments->path,
                   "Checkpoint (RUN/checkpoints/step-N) or run folder: its newest")
      ->required()
      ->check(CLI::ExistingDirectory);
  command->add_option("--out", arguments->out, "File to make")->required();
  command->callback([arguments] { export_model(*arguments); });
}

void add_convert_import(CLI::App& convert) {
  auto arguments = std::make_shared<ImportArguments>();
  auto* command = convert.add_subcommand(
      "import", "A run that begins with the model in a safetensors file of published names");
  command->footer(
      "The run's training starts at step 0 with a new optimizer.\n"
      "Example: bov convert import model.safetensors --config run.yaml --out runs/imported");
  command->add_option("FILE", arguments->file, "Safetensors file")->required()->check(CLI::ExistingFile);
  command->add_option("--config", arguments->config, "Config of the model and of the run (YAML)")
      ->required()
      ->check(CLI::ExistingFile);
  command->add_option("--prefix", arguments->prefix,
                      "What comes before the published names; other tensors are not looked at");
  command->add_option("--out", arguments->out, "Run folder to make")->required();
  command->callback([arguments] { import_model(*arguments); });
}

}  // namespace bov::experiments
