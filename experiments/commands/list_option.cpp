#include "experiments/commands/list_option.h"

#include <charconv>
#include <functional>
#include <sstream>

namespace bov::experiments {
namespace {

std::string entry_text(const std::string& entry) {
  return entry;
}

std::string entry_text(int64_t entry) {
  return std::to_string(entry);
}

std::vector<std::string> split(const std::string& name, const std::string& text) {
  std::vector<std::string> entries;
  // A comma at the end begins an entry, which getline alone would not see.
  std::istringstream rest(text + ",");
  for (std::string entry; std::getline(rest, entry, ',');) {
    if (entry.empty()) {
      throw CLI::ValidationError(
          name, "\"" + text + "\" has an empty entry; expected entries with commas between them");
    }
    entries.push_back(entry);
  }
  return entries;
}

/// The option whose entries `read` makes of their text.
template <typename Entry>
CLI::Option* add_option(CLI::App& command,
                        const std::string& name,
                        std::vector<Entry>& list,
                        const std::string& description,
                        const std::string& type,
                        const std::function<Entry(const std::string&)>& read) {
  std::string defaults;
  for (const Entry& entry : list) defaults += (defaults.empty() ? "" : ",") + entry_text(entry);
  const auto take = [&list, name, read](const CLI::results_t& texts) {
    list.clear();
    for (const std::string& text : texts) {
      for (const std::string& entry : split(name, text)) list.push_back(read(entry));
    }
    return true;
  };
  return command.add_option(name, take, description)->take_all()->type_name(type)->default_str(defaults);
}

}  // namespace

CLI::Option* add_list_option(CLI::App& command,
                             const std::string& name,
                             std::vector<std::string>& list,
                             const std::string& description) {
  return add_option<std::string>(command, name, list, description, "TEXT,...",
                                 [](const std::string& entry) { return entry; });
}

CLI::Option* add_list_option(CLI::App& command,
                             const std::string& name,
                             std::vector<int64_t>& list,
                             const std::string& description,
                             int64_t lowest,
                             int64_t highest) {
  const auto read = [name, lowest, highest](const std::string& entry) {
    int64_t number = 0;
    const char* const end = entry.data() + entry.size();
    const auto [stop, error] = std::from_chars(entry.data(), end, number);
    if (error != std::errc() || stop != end || number < lowest || number > highest) {
      throw CLI::ValidationError(name, "\"" + entry + "\" is no integer from " + std::to_string(lowest) +
                                           " to " + std::to_string(highest));
    }
    return number;
  };
  return add_option<int64_t>(command, name, list, description, "INT,...", read);
}

}  // namespace bov::experiments
