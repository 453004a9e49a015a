#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "experiments/commands/commands.h"
#include "experiments/commands/computing_options.h"
#include "experiments/commands/list_option.h"
#include "experiments/commands/long_window_option.h"
#include "experiments/config/run_options.h"
#include "experiments/config/yaml_config.h"
#include "experiments/report/memory_report.h"

namespace bov::experiments {
namespace {

struct MemoryArguments {
  std::string config;
  std::string device;
  std::vector<std::string> contexts{"1K..1M"};
  std::vector<int64_t> batches{1, 8, 64};
  LongWindow long_window = LongWindow::trained;
  bool json = false;
};

void memory(const MemoryArguments& arguments) {
  RunConfig config = load_run_config(arguments.config);
  if (!arguments.device.empty()) config.train.device = arguments.device;
  // Only the dtypes depend on it, so a device that is named need not be there.
  const c10::Device device =
      config.train.device == "auto" ? resolve_device(config.train) : c10::Device(config.train.device);
  const MemoryReport report =
      report_memory(config.name, device.str(), to_gpt_options(config, device.type()), arguments.long_window,
                    parse_contexts(arguments.contexts), arguments.batches);
  std::cout << (arguments.json ? to_json(report).dump(2) + '\n' : to_text(report));
}

}  // namespace

void add_memory_command(CLI::App& app) {
  auto arguments = std::make_shared<MemoryArguments>();
  auto* command = app.add_subcommand("memory", "Memory that decoding takes, with a V cache and without");
  command->footer(
      "Nothing is allocated.\n"
      "Example: bov memory experiments/configs/paper_135m/bov.yaml --device cuda --context 1K..1M --batch "
      "1,8,64");
  command->add_option("CONFIG", arguments->config, "YAML file of a run")
      ->required()
      ->check(CLI::ExistingFile);
  add_list_option(*command, "--context", arguments->contexts,
                  "Tokens of each sequence: 2048, 16K (16·1024) and doubling ranges 1K..1M");
  add_list_option(*command, "--batch", arguments->batches, "Sequences", 1, 1'000'000);
  add_long_window_option(*command, arguments->long_window);
  add_device_option(*command, arguments->device,
                    ", whose dtypes are counted; it need not be there (default: the config's)");
  command->add_flag("--json", arguments->json, "Print bytes as JSON");
  command->callback([arguments] { memory(*arguments); });
}

}  // namespace bov::experiments
