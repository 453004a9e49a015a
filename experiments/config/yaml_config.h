#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>

#include "experiments/config/run_config.h"

/// RunConfig <-> YAML. A file holds the sections of RunConfig; what it leaves out keeps its default, or the
/// value of the file that it names in `extends:` (a path relative to its own folder). Two sections are
/// replaced as a whole, never merged with the inherited ones: `value`, a point on the four axes (`preset:
/// name` sets all of them, the other keys then change single ones), `budget` and `paper`.
namespace bov::experiments {

/// What is wrong in a config file: "file:line: key is "text"; expected ...".
class ConfigError : public std::runtime_error {
 public:
  ConfigError(const std::filesystem::path& file, int64_t line, const std::string& problem)
      : std::runtime_error(file.string() + ":" + std::to_string(line) + ": " + problem) {}
};

/// Reads and checks a run's config. A missing name becomes the file's stem. Throws ConfigError for an
/// unreadable file, a syntax error, an unknown key (naming the nearest valid one), a value of the wrong type
/// or out of its limits, a circle of `extends`, a budget that is not exactly one number, and a value spec or
/// model that cannot be built.
RunConfig load_run_config(const std::filesystem::path& file);

/// The complete config as YAML: every field in a fixed order, defaults included, numbers such that reading
/// gives them back.
std::string write_run_config(const RunConfig& config);

/// 16 hexadecimal digits that are equal for configs that compute the same from the same data: `name`, `paper`, `log`,
/// `checkpoint` and the data's path do not count, and a preset equals its axes.
std::string config_hash(const RunConfig& config);

/// "train.seed is 42 there and 43 here" for the first field that counts in config_hash and differs; empty if none does.
std::string first_difference(const RunConfig& there, const RunConfig& here);

/// Markdown tables of every field: key, default, what it accepts, meaning.
std::string document_run_config();

}  // namespace bov::experiments
