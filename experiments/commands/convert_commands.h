#pragma once

namespace CLI {
class App;
}

/// The subcommands of `bov convert`, one file each; see commands.h.
namespace bov::experiments {

void add_convert_export(CLI::App& convert);
void add_convert_fold(CLI::App& convert);
void add_convert_import(CLI::App& convert);
void add_convert_quantize(CLI::App& convert);

}  // namespace bov::experiments
