#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "experiments/config/run_config.h"
#include "experiments/config/yaml_mapping.h"

namespace bov::experiments {

/// Builds one RunConfig from layers of YAML, each changing what the earlier ones gave, and remembers which line gave a
/// section last. A copy goes its own way: a grid's rows start as copies of its base.
class RunConfigReader {
 public:
  /// Applies a file, after the file that it extends.
  void apply_file(const std::filesystem::path& file);

  /// Applies a mapping of a grid, after the file that its `parent_key` (extends | file) names.
  void apply(const YamlMapping& mapping, const std::string& parent_key);

  /// A grid's row has its own name or none, never the base's.
  void forget_name() { config_.name.clear(); }

  const RunConfig& config() const { return config_; }

  /// The config, if its sections agree with each other. Throws ConfigError at the line of the section to blame; a section
  /// that no file gave is blamed on `whole`.
  RunConfig checked(const YamlMapping& whole) const;

 private:
  struct Origin {
    std::filesystem::path file;
    int64_t line;
  };
  void apply_sections(const YamlMapping& mapping, const std::string& parent_key);
  void read_section(const YamlMapping& mapping, ValueSpec& value);
  template <typename Struct>
  void read_section(const YamlMapping& mapping, Struct& section) {
    mapping.read_fields(section);
  }
  [[noreturn]] void blame(const std::string& section,
                          const YamlMapping& whole,
                          const std::string& problem) const;

  RunConfig config_;
  std::map<std::string, Origin> origins_;
  std::vector<std::filesystem::path> open_files_;  ///< the chain of `extends` that is being read
};

}  // namespace bov::experiments
