#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "experiments/commands/commands.h"
#include "experiments/config/grid_config.h"
#include "experiments/config/yaml_config.h"
#include "experiments/report/inspection.h"

namespace bov::experiments {
namespace {

struct InspectArguments {
  std::string config;
  bool json = false;
  bool fields = false;
};

void inspect_grid(const InspectArguments& arguments) {
  std::vector<Inspection> rows;
  for (const auto& row : load_grid_config(arguments.config).rows) {
    rows.push_back(inspect_config(row));
  }
  if (!arguments.json) {
    std::cout << to_table(rows);
    return;
  }
  auto json = nlohmann::ordered_json::array();
  for (const auto& row : rows) {
    json.push_back(to_json(row));
  }
  std::cout << json.dump(2) << '\n';
}

void inspect_run(const InspectArguments& arguments) {
  const Inspection inspection = inspect_config(load_run_config(arguments.config));
  std::cout << (arguments.json ? to_json(inspection).dump(2) + '\n' : to_text(inspection));
}

void inspect(const InspectArguments& arguments) {
  if (arguments.fields) {
    std::cout << document_run_config() << document_grid_config();
  } else if (is_grid_file(arguments.config)) {
    inspect_grid(arguments);
  } else {
    inspect_run(arguments);
  }
}

}  // namespace

void add_inspect_command(CLI::App& app) {
  auto arguments = std::make_shared<InspectArguments>();
  auto* command =
      app.add_subcommand("inspect", "Parameters, FLOPs, steps and memory of a run or of a grid's rows");
  command->footer(
      "Nothing is trained and no tensor is made.\n"
      "Example: bov inspect experiments/configs/paper_135m/table1.yaml");
  auto* fields =
      command->add_flag("--fields", arguments->fields, "Print every config field as Markdown instead");
  auto* config = command->add_option("CONFIG", arguments->config, "YAML file of a run or a grid");
  config->check(CLI::ExistingFile)->excludes(fields);
  command->add_flag("--json", arguments->json, "Print JSON");
  command->callback([arguments, config, fields] {
    if (config->count() + fields->count() == 0) {
      throw CLI::RequiredError("CONFIG or --fields");
    }
    inspect(*arguments);
  });
}

}  // namespace bov::experiments
