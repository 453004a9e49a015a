#pragma once

#include <yaml-cpp/yaml.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "experiments/config/field_text.h"
#include "experiments/config/fields.h"
#include "experiments/config/yaml_config.h"

namespace bov::experiments {

/// A YAML mapping that knows its file and name, so that every error names file, line and key.
class YamlMapping {
 public:
  /// `name` is the path of keys that leads here, empty at the top. Throws ConfigError at `line` if `node` is no mapping,
  /// and at the second key of two equal ones.
  YamlMapping(std::filesystem::path file, std::string name, const YAML::Node& node, int64_t line);

  /// Reads the file's top mapping. Throws ConfigError if it cannot be opened or parsed.
  static YamlMapping read_file(const std::filesystem::path& file);

  const std::filesystem::path& file() const { return file_; }
  int64_t line() const { return line_; }

  bool has(const std::string& key) const { return find(key) != nullptr; }
  /// Line of a key that is there.
  int64_t line_of(const std::string& key) const { return find(key)->line; }
  /// The node of a key that is there.
  const YAML::Node& node(const std::string& key) const { return find(key)->node; }
  /// The mapping of a key that is there.
  YamlMapping child(const std::string& key) const;
  /// The mappings of a list. Throws ConfigError if `key` holds no list of mappings.
  std::vector<YamlMapping> children(const std::string& key) const;
  /// A path text as seen from this file's folder.
  std::filesystem::path path(const std::string& key) const;

  /// Throws ConfigError for the first key that is not in `known`, naming the nearest one that is.
  void check_keys(const std::vector<std::string>& known) const;

  [[noreturn]] void fail(int64_t line, const std::string& problem) const;
  /// Throws "name.key is "text"; expected ...".
  [[noreturn]] void fail_value(const std::string& key, const std::string& expected) const;

  /// Reads the field if its key is there.
  template <typename T>
  void read(const Field& field, T& member) const {
    if (!has(field.key)) {
      return;
    }
    T value{};
    if (!parse_field(node(field.key), value) || !accepts(field.rule, value)) {
      fail_value(field.key, expectation(field.rule, value));
    }
    member = std::move(value);
  }

  /// Reads every field of a section's struct; other keys than those and `extra` are refused.
  template <typename Struct>
  void read_fields(Struct& section, std::vector<std::string> extra = {}) const {
    visit_fields(section, [&](const Field& field, const auto&) { extra.emplace_back(field.key); });
    check_keys(extra);
    visit_fields(section, [&](const Field& field, auto& member) { read(field, member); });
  }

 private:
  struct Entry {
    std::string key;
    YAML::Node node;
    int64_t line;
  };
  const Entry* find(const std::string& key) const;
  std::string full_name(const std::string& key) const { return name_.empty() ? key : name_ + "." + key; }

  std::filesystem::path file_;
  std::string name_;
  int64_t line_;
  std::vector<Entry> entries_;
};

}  // namespace bov::experiments
