#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "experiments/commands/option_checks.h"

/// Where and with how many threads a command computes.
namespace bov::experiments {

/// The option --device; `use` goes on in its help, as " (default: the run's)".
inline CLI::Option* add_device_option(CLI::App& command, std::string& device, const std::string& use) {
  return command.add_option("--device", device, "auto, cpu, cuda or cuda:N" + use)->check(device_text());
}

/// The option --threads, for prepare_computation or set_threads.
inline CLI::Option* add_threads_option(CLI::App& command, std::optional<int>& threads) {
  return command
      .add_option("--threads", threads, "Computing threads (default: OMP_NUM_THREADS, or the cores)")
      ->check(thread_count());
}

}  // namespace bov::experiments
