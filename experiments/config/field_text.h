#pragma once

#include <yaml-cpp/yaml.h>

#include <optional>
#include <string>

#include "bov/value/value_spec.h"
#include "experiments/config/field_rules.h"

/// One field's value <-> YAML, for every type that a config field may have.
namespace bov::experiments {

/// Read `node` into `value`; false, with `value` unchanged, if the node is of another type. Integers may be written as 1e9.
bool parse_field(const YAML::Node& node, std::string& value);
bool parse_field(const YAML::Node& node, bool& value);
bool parse_field(const YAML::Node& node, int64_t& value);
bool parse_field(const YAML::Node& node, double& value);
bool parse_field(const YAML::Node& node, ValueCombine& value);
bool parse_field(const YAML::Node& node, ValueCoefficient& value);
bool parse_field(const YAML::Node& node, TargetLayers& value);
bool parse_field(const YAML::Node& node, BankInit& value);

/// The YAML text of a value; parse_field of it gives the value back, doubles to the last bit.
std::string field_text(const std::string& value);
std::string field_text(bool value);
std::string field_text(int64_t value);
std::string field_text(double value);
std::string field_text(ValueCombine value);
std::string field_text(const ValueCoefficient& value);
std::string field_text(const TargetLayers& value);
std::string field_text(BankInit value);

/// What a field accepts, in words: the type's name and the rule.
std::string expectation(const FieldRule& rule, int64_t);
std::string expectation(const FieldRule& rule, double);
/// Other types: the rule alone.
template <typename T>
std::string expectation(const FieldRule& rule, const T&) {
  return rule.expected;
}

inline bool accepts(const FieldRule& rule, int64_t value) {
  return !rule.number || rule.number(static_cast<double>(value));
}
inline bool accepts(const FieldRule& rule, double value) {
  return !rule.number || rule.number(value);
}
inline bool accepts(const FieldRule& rule, const std::string& value) {
  return !rule.text || rule.text(value);
}
template <typename T>
bool accepts(const FieldRule&, const T&) {
  return true;
}

/// An optional field is written `null` where it is unset.
template <typename T>
bool parse_field(const YAML::Node& node, std::optional<T>& value) {
  if (node.IsNull()) {
    value.reset();
    return true;
  }
  T given{};
  if (!parse_field(node, given)) {
    return false;
  }
  value = given;
  return true;
}

template <typename T>
std::string field_text(const std::optional<T>& value) {
  return value ? field_text(*value) : "null";
}

template <typename T>
std::string expectation(const FieldRule& rule, const std::optional<T>& value) {
  return expectation(rule, T{}) + ", or null";
}

template <typename T>
bool accepts(const FieldRule& rule, const std::optional<T>& value) {
  return !value || accepts(rule, *value);
}

}  // namespace bov::experiments
