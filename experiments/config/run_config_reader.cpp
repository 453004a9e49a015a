#include "experiments/config/run_config_reader.h"

#include <c10/util/Exception.h>

#include <algorithm>

#include "bov/value/presets.h"
#include "bov/value/value_sources.h"
#include "experiments/config/run_options.h"

namespace bov::experiments {
namespace {

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const auto& preset : value_presets()) {
    names.push_back(preset.name);
  }
  return names;
}

/// What is wrong with the budget and batch, or nothing.
std::string batch_problem(const RunConfig& config) {
  const int64_t micro_batch_tokens = config.train.micro_batch * config.model.sequence_length;
  if (config.train.tokens_per_step % micro_batch_tokens == 0) {
    return {};
  }
  return "train.tokens_per_step is " + std::to_string(config.train.tokens_per_step) +
         "; expected a multiple of train.micro_batch * model.sequence_length = " +
         std::to_string(micro_batch_tokens);
}

}  // namespace

FieldRule value_source_rule() {
  return one_of(value_source_names());
}

void RunConfigReader::apply_file(const std::filesystem::path& file) {
  const YamlMapping mapping = YamlMapping::read_file(file);
  open_files_.push_back(std::filesystem::weakly_canonical(file));
  apply(mapping, "extends");
  open_files_.pop_back();
}

void RunConfigReader::apply(const YamlMapping& mapping, const std::string& parent_key) {
  if (mapping.has(parent_key)) {
    const std::filesystem::path parent = mapping.path(parent_key);
    const auto open = std::filesystem::weakly_canonical(parent);
    if (std::find(open_files_.begin(), open_files_.end(), open) != open_files_.end()) {
      mapping.fail(mapping.line_of(parent_key),
                   parent_key + " goes round in a circle: " + parent.string() + " is being read already");
    }
    if (!std::filesystem::exists(parent)) {
      mapping.fail_value(parent_key, "a file; " + parent.string() + " does not exist");
    }
    apply_file(parent);
  }
  apply_sections(mapping, parent_key);
}

void RunConfigReader::apply_sections(const YamlMapping& mapping, const std::string& parent_key) {
  std::vector<std::string> known{"name", parent_key};
  visit_sections(config_, [&](const Section& section, const auto&) { known.emplace_back(section.key); });
  mapping.check_keys(known);
  mapping.read(Field{"name", folder_name(), ""}, config_.name);
  visit_sections(config_, [&](const Section& section, auto& fields) {
    if (!mapping.has(section.key)) {
      return;
    }
    if (section.whole) {
      fields = {};
    }
    read_section(mapping.child(section.key), fields);
    origins_.insert_or_assign(section.key, Origin{mapping.file(), mapping.line_of(section.key)});
  });
}

void RunConfigReader::read_section(const YamlMapping& mapping, ValueSpec& value) {
  std::string preset;
  mapping.read(Field{"preset", one_of(preset_names()), ""}, preset);
  if (!preset.empty()) {
    value = value_preset(preset);
  }
  mapping.read_fields(value, {"preset"});
}

RunConfig RunConfigReader::checked(const YamlMapping& whole) const {
  // Nothing here depends on the device; the CPU is always there.
  const GPTOptions options = to_gpt_options(config_, c10::DeviceType::CPU);
  std::string section = "value";
  try {
    options.value.validate();
    section = "model";
    GPTOptions standard = options;
    standard.value = {};
    standard.validate();
    section = "value";
    target_layers(options.value, options.n_layer);
    section = "model";
    options.validate();
  } catch (const c10::Error& error) {
    blame(section, whole, section + ": " + error.what_without_backtrace());
  }
  try {
    resolve_steps(config_);
  } catch (const std::runtime_error& error) {
    blame("budget", whole, error.what());
  }
  if (const std::string problem = batch_problem(config_); !problem.empty()) {
    blame("train", whole, problem);
  }
  if (config_.data.packing == "as_published" && config_.evaluation.tokens == 0) {
    blame("evaluation", whole,
          "evaluation.tokens is 0 (the whole split), which data.packing: as_published cannot cover; expected "
          "a number "
          "of tokens");
  }
  return config_;
}

void RunConfigReader::blame(const std::string& section,
                            const YamlMapping& whole,
                            const std::string& problem) const {
  const auto origin = origins_.find(section);
  if (origin == origins_.end()) {
    whole.fail(whole.line(), problem);
  }
  throw ConfigError(origin->second.file, origin->second.line, problem);
}

}  // namespace bov::experiments
