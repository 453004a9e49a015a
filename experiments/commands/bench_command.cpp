#include <ATen/Context.h>
#include <c10/core/InferenceMode.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "bov/io/atomic_file.h"
#include "experiments/bench/bench_report.h"
#include "experiments/bench/ops/op_benches.h"
#include "experiments/commands/commands.h"
#include "experiments/commands/option_checks.h"
#include "experiments/runtime.h"

namespace bov::experiments {
namespace {

struct BenchArguments {
  std::vector<std::string> ops;
  std::string filter;
  std::string device = "cpu";
  std::string data;
  std::string json;
  std::optional<int> threads;
  BenchPrecision precision;
  bool list = false;
};

/// The groups of the named operators (all without a name) whose name holds `filter`.
std::vector<BenchGroup> selected_groups(const BenchArguments& arguments, const BenchInputs& inputs) {
  std::vector<BenchGroup> groups = op_benches(inputs);
  std::set<std::string> known;
  for (const BenchGroup& group : groups) known.insert(group.op);
  for (const std::string& op : arguments.ops) {
    if (!known.contains(op)) {
      std::string names;
      for (const std::string& name : known) names += (names.empty() ? "" : ", ") + name;
      throw std::invalid_argument("there is no benchmark of '" + op + "'; expected one of " + names);
    }
  }
  std::erase_if(groups, [&](const BenchGroup& group) {
    const bool named = arguments.ops.empty() || std::ranges::count(arguments.ops, group.op) > 0;
    return !named || group.name().find(arguments.filter) == std::string::npos;
  });
  if (groups.empty()) {
    throw std::invalid_argument("no benchmark has '" + arguments.filter +
                                "' in its name; see bov bench --list");
  }
  return groups;
}

void bench(const BenchArguments& arguments) {
  prepare_computation(arguments.threads);
  const c10::Device device(arguments.device);
  if (device.is_cuda() && !at::hasCUDA())
    throw std::invalid_argument("--device cuda: no CUDA device was found");
  const BenchInputs inputs(
      device.is_cuda() && !device.has_index() ? c10::Device(device.type(), 0) : device,
      arguments.data.empty() ? std::nullopt : std::optional<std::filesystem::path>(arguments.data),
      /*seed=*/1);
  const std::vector<BenchGroup> groups = selected_groups(arguments, inputs);
  std::vector<BenchMeasurement> measurements;
  for (size_t i = 0; i < groups.size(); ++i) {
    if (arguments.list) {
      std::cout << groups[i].name() << '\n';
      continue;
    }
    std::cerr << "[" << i + 1 << "/" << groups.size() << "] " << groups[i].name() << '\n';
    std::ranges::move(run_bench(groups[i], inputs.device(), arguments.precision),
                      std::back_inserter(measurements));
    // After each problem, so that a later one that fails or takes too long loses nothing.
    if (!arguments.json.empty()) atomic_write_text(arguments.json, to_json(measurements).dump(2) + '\n');
  }
  if (arguments.list) return;
  std::cout << to_table(measurements);
}

}  // namespace

void add_bench_command(CLI::App& app) {
  auto arguments = std::make_shared<BenchArguments>();
  auto* command = app.add_subcommand("bench", "Time operators against other ways to the same result");
  command->footer(
      "The methods of a problem take turns, so that their ratios hold on a busy machine; speed is that of "
      "the\n"
      "baseline over the method's, by median. Ids follow Zipf's law unless --data gives text.\n"
      "Example: bov bench value_gather --threads 1 --filter forward --json build/bench.json");
  command->add_option("OP", arguments->ops, "Operators to time (default: all)");
  command->add_option("--filter", arguments->filter, "Only problems with this text in their name");
  command->add_option("--device", arguments->device, "cpu or cuda")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  command->add_option("--data", arguments->data, "Folder of `bov data build` to take ids from")
      ->check(CLI::ExistingDirectory);
  command->add_option("--threads", arguments->threads, "Computing threads (default: as torch chooses)")
      ->check(thread_count());
  command->add_option("--repetitions", arguments->precision.repetitions, "Turns of each method")
      ->capture_default_str()
      ->check(CLI::Range(1, 1'000'000));
  command->add_option("--min-time", arguments->precision.min_seconds, "Seconds of each turn at least")
      ->capture_default_str()
      ->check(real_between(1e-6, 3600.0));
  command->add_option("--json", arguments->json,
                      "Write every number, with the environment, to this file, after each problem anew");
  command->add_flag("--list", arguments->list, "Print the names of the problems and time nothing");
  command->callback([arguments] { bench(*arguments); });
}

}  // namespace bov::experiments
