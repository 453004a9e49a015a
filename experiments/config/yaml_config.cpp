#include "experiments/config/yaml_config.h"

#include <array>
#include <cstdio>
#include <utility>
#include <vector>

#include "experiments/config/config_text.h"
#include "experiments/config/run_config_reader.h"

namespace bov::experiments {
namespace {

/// FNV-1a, 64 bits: no secret is kept, the hash only tells configs apart.
uint64_t fnv1a(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325U;
  for (const unsigned char byte : text) {
    hash = (hash ^ byte) * 0x100000001b3U;
  }
  return hash;
}

/// "train.seed" and "42" for every field that decides what a run computes.
std::vector<std::pair<std::string, std::string>> deciding_fields(const RunConfig& config) {
  std::vector<std::pair<std::string, std::string>> deciding;
  visit_sections(config, [&](const Section& section, const auto& fields) {
    visit_fields(fields, [&](const Field& field, const auto& member) {
      if (section.decides_result && field.decides_result) {
        deciding.emplace_back(std::string(section.key) + "." + field.key, field_text(member));
      }
    });
  });
  return deciding;
}

}  // namespace

RunConfig load_run_config(const std::filesystem::path& file) {
  const YamlMapping mapping = YamlMapping::read_file(file);
  if (mapping.has("rows")) {
    mapping.fail(mapping.line_of("rows"), "rows makes this a grid of runs (bov ablate); expected one run");
  }
  RunConfigReader reader;
  reader.apply_file(file);
  RunConfig config = reader.checked(mapping);
  if (config.name.empty()) {
    config.name = file.stem().string();
  }
  return config;
}

std::string run_config_text(const RunConfig& config, const std::string& indent) {
  std::string text = config.name.empty() ? "" : indent + "name: " + field_text(config.name) + "\n";
  visit_sections(config, [&](const Section& section, const auto& fields) {
    text += indent + section.key + ":\n" + fields_text(fields, indent + "  ");
  });
  return text;
}

std::string write_run_config(const RunConfig& config) {
  return run_config_text(config, "");
}

std::string config_hash(const RunConfig& config) {
  std::string text;
  for (const auto& [name, value] : deciding_fields(config)) {
    text += name + ": " + value + "\n";
  }
  std::array<char, 17> digits{};
  std::snprintf(digits.data(), digits.size(), "%016llx", static_cast<unsigned long long>(fnv1a(text)));
  return digits.data();
}

std::string first_difference(const RunConfig& there, const RunConfig& here) {
  const auto left = deciding_fields(there);
  const auto right = deciding_fields(here);
  for (size_t i = 0; i < left.size(); ++i) {
    if (left[i].second != right[i].second) {
      return left[i].first + " is " + left[i].second + " there and " + right[i].second + " here";
    }
  }
  return "";
}

std::string document_run_config() {
  const RunConfig defaults;
  std::string text;
  visit_sections(defaults, [&](const Section& section, const auto& fields) {
    text += fields_document(section.key, section.meaning, fields);
  });
  return text;
}

}  // namespace bov::experiments
