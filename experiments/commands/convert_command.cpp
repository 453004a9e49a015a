#include <CLI/CLI.hpp>

#include "experiments/commands/commands.h"
#include "experiments/commands/convert_commands.h"

namespace bov::experiments {

void add_convert_command(CLI::App& app) {
  auto* command = app.add_subcommand("convert", "Make another form of a checkpoint");
  command->require_subcommand(1);
  add_convert_export(*command);
  add_convert_import(*command);
  add_convert_fold(*command);
  add_convert_quantize(*command);
}

}  // namespace bov::experiments
