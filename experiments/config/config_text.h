#pragma once

#include <string>

#include "experiments/config/field_text.h"
#include "experiments/config/fields.h"

/// Pieces of the YAML and Markdown that yaml_config.cpp and grid_config.cpp write.
namespace bov::experiments {

/// "key: value" lines of every field of a section's struct, each after `indent`.
template <typename Struct>
std::string fields_text(const Struct& section, const std::string& indent) {
  std::string text;
  visit_fields(section, [&](const Field& field, const auto& member) {
    text += indent + field.key + ": " + field_text(member) + "\n";
  });
  return text;
}

/// `name` and every section as YAML, each line after `indent`.
std::string run_config_text(const RunConfig& config, const std::string& indent);

/// A Markdown heading and table of one section; the defaults are those of `section`.
template <typename Struct>
std::string fields_document(const std::string& key, const std::string& meaning, const Struct& section) {
  std::string text =
      "### `" + key + "`\n\n" + meaning + "\n\n| key | default | accepts | meaning |\n|---|---|---|---|\n";
  visit_fields(section, [&](const Field& field, const auto& member) {
    text += "| `" + std::string(field.key) + "` | `" + field_text(member) + "` | " +
            expectation(field.rule, member) + " | " + field.meaning + " |\n";
  });
  return text + "\n";
}

}  // namespace bov::experiments
