#pragma once

#include <functional>
#include <string>
#include <vector>

/// What a config field accepts beyond its type, in a form that checks, documents and words the error.
namespace bov::experiments {

struct FieldRule {
  /// "one of quick, core, full"; where the field is a number it follows the type's name: "of 1 or more".
  std::string expected;
  std::function<bool(double)> number;            ///< empty: any number
  std::function<bool(const std::string&)> text;  ///< empty: any text
};

FieldRule at_least(double lowest);
FieldRule above(double bound);
FieldRule between(double lowest, double highest);
FieldRule one_of(std::vector<std::string> choices);
/// Any text; `expected` says what it means.
FieldRule any_text(const std::string& expected);
/// A text that may stand as a folder's name: letters, digits, '.', '_' and '-', not starting with '.'.
FieldRule folder_name();
/// auto, cpu, cuda or cuda:N.
FieldRule device_name();
/// One or more of the letters S and L.
FieldRule window_letters();

/// One field of a config struct.
struct Field {
  const char* key;
  FieldRule rule;
  const char* meaning;
  /// Counts in config_hash, if its section does. False for a path: what lies there is told apart by its content.
  bool decides_result = true;
};

/// The entry of `known` that is nearest to `word` in single-letter edits. `known` is not empty.
std::string nearest_word(const std::string& word, const std::vector<std::string>& known);

}  // namespace bov::experiments
