#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "experiments/ablation/compared_runs.h"
#include "experiments/commands/commands.h"
#include "experiments/report/comparison.h"
#include "experiments/report/table.h"

namespace bov::experiments {
namespace {

struct CompareArguments {
  std::vector<std::filesystem::path> paths;
  bool json = false;
  bool markdown = false;
};

void compare(const CompareArguments& arguments) {
  const GridResult rows = read_compared_runs(arguments.paths);
  std::cout << (arguments.json       ? json_report(rows).dump(2) + "\n"
                : arguments.markdown ? markdown_report(rows)
                                     : comparison_text(rows));
}

}  // namespace

void add_compare_command(CLI::App& app) {
  auto arguments = std::make_shared<CompareArguments>();
  auto* command = app.add_subcommand("compare", "Results and final coefficients of runs, side by side");
  command->footer(
      "Example: bov compare runs/quickstart/t1_01_standard runs/quickstart/bov\n"
      "The first is what the others are compared with. Seeds that both have are paired.");
  command
      ->add_option("RUN", arguments->paths,
                   "Folder of a run, of a row with its seeds (GRID/ROW), or of a grid: all its rows")
      ->required()
      ->check(CLI::ExistingDirectory);
  auto* json = command->add_flag("--json", arguments->json, "Print the table as JSON");
  command
      ->add_flag("--markdown", arguments->markdown,
                 "Print the table of a grid, with the paper's values and findings, as Markdown")
      ->excludes(json);
  command->callback([arguments] { compare(*arguments); });
}

}  // namespace bov::experiments
