#include "experiments/config/field_text.h"

#include <c10/util/Exception.h>

#include <array>
#include <charconv>
#include <cmath>

namespace bov::experiments {
namespace {

/// The whole of `text` as a number, or false.
template <typename Number>
bool parse_number(const std::string& text, Number& value) {
  Number parsed{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parsed);
  if (error != std::errc() || end != text.data() + text.size()) {
    return false;
  }
  value = parsed;
  return true;
}

/// A parser of the library that throws c10::Error where the text is unknown.
template <typename T>
bool parse_axis(const YAML::Node& node, T (*parse)(const std::string&), T& value) {
  if (!node.IsScalar()) {
    return false;
  }
  try {
    value = parse(node.Scalar());
    return true;
  } catch (const c10::Error&) {
    return false;
  }
}

}  // namespace

bool parse_field(const YAML::Node& node, std::string& value) {
  if (!node.IsScalar()) {
    return false;
  }
  value = node.Scalar();
  return true;
}

bool parse_field(const YAML::Node& node, bool& value) {
  if (!node.IsScalar() || (node.Scalar() != "true" && node.Scalar() != "false")) {
    return false;
  }
  value = node.Scalar() == "true";
  return true;
}

bool parse_field(const YAML::Node& node, int64_t& value) {
  if (!node.IsScalar()) {
    return false;
  }
  if (parse_number(node.Scalar(), value)) {
    return true;
  }
  // 2^53: up to here every integer is a double of its own.
  constexpr double kLargestExact = 9007199254740992.0;
  double real = 0;
  if (!parse_number(node.Scalar(), real) || real != std::floor(real) || std::abs(real) > kLargestExact) {
    return false;
  }
  value = static_cast<int64_t>(real);
  return true;
}

bool parse_field(const YAML::Node& node, double& value) {
  double parsed = 0;
  if (!node.IsScalar() || !parse_number(node.Scalar(), parsed) || !std::isfinite(parsed)) {
    return false;
  }
  value = parsed;
  return true;
}

bool parse_field(const YAML::Node& node, ValueCombine& value) {
  return parse_axis(node, parse_value_combine, value);
}

bool parse_field(const YAML::Node& node, ValueCoefficient& value) {
  return parse_axis(node, parse_value_coefficient, value);
}

bool parse_field(const YAML::Node& node, BankInit& value) {
  return parse_axis(node, parse_bank_init, value);
}

bool parse_field(const YAML::Node& node, TargetLayers& value) {
  TargetRule rule{};
  if (parse_axis(node, parse_target_rule, rule)) {
    value = rule;
    return true;
  }
  if (!node.IsSequence()) {
    return false;
  }
  std::vector<int64_t> layers;
  for (const auto& entry : node) {
    int64_t layer = 0;
    if (!parse_field(entry, layer)) {
      return false;
    }
    layers.push_back(layer);
  }
  value = layers;
  return true;
}

std::string field_text(const std::string& value) {
  YAML::Emitter emitter;
  emitter << value;
  return emitter.c_str();
}

std::string field_text(bool value) {
  return value ? "true" : "false";
}

std::string field_text(int64_t value) {
  return std::to_string(value);
}

std::string field_text(double value) {
  std::array<char, 32> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

std::string field_text(ValueCombine value) {
  return to_string(value);
}
std::string field_text(const ValueCoefficient& value) {
  return to_string(value);
}
std::string field_text(const TargetLayers& value) {
  return to_string(value);
}
std::string field_text(BankInit value) {
  return to_string(value);
}

std::string expectation(const FieldRule& rule, int64_t) {
  return rule.expected.empty() ? "an integer" : "an integer " + rule.expected;
}

std::string expectation(const FieldRule& rule, double) {
  return rule.expected.empty() ? "a number" : "a number " + rule.expected;
}

}  // namespace bov::experiments
