#pragma once

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "experiments/config/field_rules.h"

/// Checks that options of several commands share. Each names bounds that a person can read.
namespace bov::experiments {

inline CLI::Validator thread_count() {
  return CLI::Range(1, 1024);
}

/// Thousandths of the documents that are kept for validation.
inline CLI::Validator validation_share() {
  return CLI::Range(0, 999);
}

/// From `lowest` to 10^15, more than anybody has tokens or bytes of text.
inline CLI::Validator count_from(int64_t lowest) {
  return CLI::Range(lowest, int64_t{1'000'000'000'000'000});
}

/// A real number in the range. CLI11's own check lets NaN through.
inline CLI::Validator real_between(double lowest, double highest) {
  CLI::Range range(lowest, highest);
  const std::string bounds = std::to_string(lowest) + " to " + std::to_string(highest);
  return CLI::Validator(
      [range, bounds](std::string& text) {
        const std::string problem = range(text);
        return problem.empty() && std::isnan(std::stod(text)) ? "Value " + text + " not in range " + bounds
                                                              : problem;
      },
      range.get_description());
}

inline CLI::Validator seed_number() {
  return CLI::Range(int64_t{0}, std::numeric_limits<int64_t>::max());
}

inline CLI::Validator device_text() {
  const FieldRule rule = device_name();
  return CLI::Validator(
      [rule](const std::string& text) {
        return rule.text(text) ? std::string() : "\"" + text + "\" is no device; expected " + rule.expected;
      },
      "DEVICE");
}

}  // namespace bov::experiments
