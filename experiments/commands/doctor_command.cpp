#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <optional>

#include "experiments/commands/commands.h"
#include "experiments/commands/option_checks.h"
#include "experiments/doctor/diagnosis.h"
#include "experiments/doctor/facts.h"
#include "experiments/runtime.h"

namespace bov::experiments {
namespace {

struct DoctorArguments {
  std::optional<int> threads;
  bool no_measurements = false;
  bool json = false;
};

void doctor(const DoctorArguments& arguments) {
  set_threads(arguments.threads);
  const DoctorFacts facts = collect_facts(!arguments.no_measurements);
  std::cout << (arguments.json ? diagnosis_to_json(facts).dump(2) + '\n' : diagnosis_to_text(facts));
}

}  // namespace

void add_doctor_command(CLI::App& app) {
  auto arguments = std::make_shared<DoctorArguments>();
  auto* command = app.add_subcommand(
      "doctor", "What this program was built with, what the machine offers, what stands out");
  command->footer("Measures for about a second.\nExample: bov doctor --json | jq .measured");
  command->add_option("--threads", arguments->threads, "Computing threads (default: as torch chooses)")
      ->check(thread_count());
  command->add_flag("--no-measurements", arguments->no_measurements, "Measure nothing");
  command->add_flag("--json", arguments->json, "Print JSON");
  command->callback([arguments] { doctor(*arguments); });
}

}  // namespace bov::experiments
