#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "experiments/commands/option_checks.h"

namespace bov::experiments {

/// The option --device; `use` goes on in its help, as " (default: the run's)".
inline CLI::Option* add_device_option(CLI::App& command, std::string& device, const std::string& use) {
  return command.add_option("--device", device, "auto, cpu, cuda or cuda:N" + use)->check(device_text());
}

}  // namespace bov::experiments
