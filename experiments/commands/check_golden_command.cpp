#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "experiments/commands/commands.h"
#include "experiments/commands/option_checks.h"
#include "experiments/golden/golden_check.h"
#include "experiments/report/text_table.h"

namespace bov::experiments {
namespace {

struct CheckGoldenArguments {
  std::string directory;
  std::string dtype = "float64";
  double tolerance = 0;  ///< 0: the default of the dtype
  bool json = false;

  /// Golden files hold float32 roundings (3e-8 a tensor). In float32 an optimizer step divides by gradients that carry
  /// the forward pass's error.
  double limit() const { return tolerance > 0 ? tolerance : dtype == "float64" ? 1e-6 : 2e-3; }
};

std::string scientific(double value) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "%.1e", value);
  return text.data();
}

/// One row a file, one column a tensor group; a group that a file lacks stays empty.
std::string to_text(const std::vector<GoldenErrors>& files) {
  std::set<std::string> groups;
  for (const auto& file : files) {
    for (const auto& [group, error] : file.by_group) groups.insert(group);
  }
  TextTable table{.columns = {{"file"}}};
  for (const auto& group : groups) table.columns.push_back({group, Align::right});
  for (const auto& file : files) {
    std::vector<std::string> row{file.file};
    for (const auto& group : groups) {
      const auto found = file.by_group.find(group);
      row.push_back(found == file.by_group.end() ? "" : scientific(found->second));
    }
    table.rows.push_back(std::move(row));
  }
  return render_terminal(table);
}

nlohmann::ordered_json to_json(const std::vector<GoldenErrors>& files,
                               const CheckGoldenArguments& arguments) {
  nlohmann::ordered_json json{{"dtype", arguments.dtype}, {"tolerance", arguments.limit()}};
  for (const auto& file : files) {
    json["files"].push_back({{"file", file.file},
                             {"paper_rows", file.paper_rows},
                             {"flops_per_token", file.flops_per_token},
                             {"largest", file.largest()},
                             {"errors", file.by_group}});
  }
  return json;
}

void check(const CheckGoldenArguments& arguments) {
  const auto files =
      check_golden(arguments.directory, arguments.dtype == "float64" ? torch::kFloat64 : torch::kFloat32);
  size_t agreeing = 0;
  for (const auto& file : files) agreeing += file.largest() < arguments.limit() ? 1 : 0;
  if (arguments.json) {
    std::cout << to_json(files, arguments).dump(2) << '\n';
  } else {
    std::cout << "relative error of each tensor group, " << arguments.dtype << '\n' << to_text(files);
    std::cout << agreeing << " of " << files.size() << " files agree within " << scientific(arguments.limit())
              << '\n';
  }
  if (agreeing != files.size()) {
    throw std::runtime_error(std::to_string(files.size() - agreeing) + " of " + std::to_string(files.size()) +
                             " golden files differ by more than " + scientific(arguments.limit()));
  }
}

}  // namespace

void add_check_golden_command(CLI::App& app) {
  auto arguments = std::make_shared<CheckGoldenArguments>();
  auto* command = app.add_subcommand(
      "check-golden", "Compare logits, gradients and optimizer steps with vectors of the published model");
  command->footer("Example: bov check-golden tests/golden");
  command->add_option("DIR", arguments->directory, "Folder with index.json and the files that it lists")
      ->required()
      ->check(CLI::ExistingDirectory);
  command->add_option("--dtype", arguments->dtype, "float64 or float32 arithmetic")
      ->check(CLI::IsMember({"float64", "float32"}))
      ->capture_default_str();
  command
      ->add_option("--tolerance", arguments->tolerance,
                   "Largest relative error of a tensor group (default: 1e-6 in float64, 2e-3 in float32)")
      ->check(real_between(1e-16, 1.0));
  command->add_flag("--json", arguments->json, "Print JSON");
  command->callback([arguments] { check(*arguments); });
}

}  // namespace bov::experiments
