#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

/// Options whose value is a list with commas, as 1,8,64; an option that is given again adds to its list. An empty entry is
/// refused, which CLI11's own lists leave out. `list` is the default and takes the value.
namespace bov::experiments {

CLI::Option* add_list_option(CLI::App& command,
                             const std::string& name,
                             std::vector<std::string>& list,
                             const std::string& description);

/// The same for integers from `lowest` to `highest`.
CLI::Option* add_list_option(CLI::App& command,
                             const std::string& name,
                             std::vector<int64_t>& list,
                             const std::string& description,
                             int64_t lowest,
                             int64_t highest);

}  // namespace bov::experiments
