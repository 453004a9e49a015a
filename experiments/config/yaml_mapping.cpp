#include "experiments/config/yaml_mapping.h"

#include <fstream>

namespace bov::experiments {
namespace {

int64_t line_of_mark(const YAML::Mark& mark) {
  return mark.is_null() ? 1 : mark.line + 1;
}

std::string describe(const YAML::Node& node) {
  switch (node.Type()) {
    case YAML::NodeType::Scalar:
      return '"' + node.Scalar() + '"';
    case YAML::NodeType::Sequence:
      return node.size() == 0 ? "an empty list" : "a list";
    case YAML::NodeType::Map:
      return "a mapping";
    default:
      return "empty";
  }
}

}  // namespace

YamlMapping::YamlMapping(std::filesystem::path file, std::string name, const YAML::Node& node, int64_t line)
    : file_(std::move(file)), name_(std::move(name)), line_(line) {
  if (!node.IsMap()) {
    fail(line, (name_.empty() ? "the file" : name_) + " is " + describe(node) + "; expected a mapping");
  }
  for (const auto& item : node) {
    const int64_t key_line = line_of_mark(item.first.Mark());
    if (!item.first.IsScalar()) {
      fail(key_line, "a key is " + describe(item.first) + "; expected text");
    }
    const std::string key = item.first.Scalar();
    if (has(key)) {
      fail(key_line, full_name(key) + " is given twice; first in line " + std::to_string(line_of(key)));
    }
    entries_.push_back({key, item.second, key_line});
  }
}

YamlMapping YamlMapping::read_file(const std::filesystem::path& file) {
  std::ifstream stream(file);
  if (!stream || std::filesystem::is_directory(file)) {
    throw ConfigError(file, 1, "the file cannot be opened");
  }
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(stream);
    if (documents.size() > 1) {
      throw ConfigError(file, line_of_mark(documents[1].Mark()),
                        "a second YAML document begins; expected one mapping");
    }
    return {file, "", documents.empty() ? YAML::Node() : documents.front(), 1};
  } catch (const YAML::Exception& error) {
    throw ConfigError(file, line_of_mark(error.mark), "not YAML: " + error.msg);
  }
}

const YamlMapping::Entry* YamlMapping::find(const std::string& key) const {
  for (const auto& entry : entries_) {
    if (entry.key == key) {
      return &entry;
    }
  }
  return nullptr;
}

YamlMapping YamlMapping::child(const std::string& key) const {
  return {file_, full_name(key), node(key), line_of(key)};
}

std::vector<YamlMapping> YamlMapping::children(const std::string& key) const {
  if (!node(key).IsSequence()) {
    fail_value(key, "a list of mappings");
  }
  std::vector<YamlMapping> mappings;
  for (const auto& item : node(key)) {
    const std::string name = full_name(key) + "[" + std::to_string(mappings.size()) + "]";
    mappings.emplace_back(file_, name, item, line_of_mark(item.Mark()));
  }
  return mappings;
}

std::filesystem::path YamlMapping::path(const std::string& key) const {
  std::string text;
  if (!parse_field(node(key), text) || text.empty()) {
    fail_value(key, "the path of a file");
  }
  return (file_.parent_path() / text).lexically_normal();
}

void YamlMapping::check_keys(const std::vector<std::string>& known) const {
  for (const auto& entry : entries_) {
    if (std::find(known.begin(), known.end(), entry.key) == known.end()) {
      fail(entry.line, "unknown key " + full_name(entry.key) + "; the nearest valid key is " +
                           nearest_word(entry.key, known));
    }
  }
}

void YamlMapping::fail(int64_t line, const std::string& problem) const {
  throw ConfigError(file_, line, problem);
}

void YamlMapping::fail_value(const std::string& key, const std::string& expected) const {
  fail(line_of(key), full_name(key) + " is " + describe(node(key)) + "; expected " + expected);
}

}  // namespace bov::experiments
