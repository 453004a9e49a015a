#include "experiments/config/field_rules.h"

#include <algorithm>
#include <cctype>
#include <numeric>

namespace bov::experiments {
namespace {

std::string number_text(double value) {
  std::string text = std::to_string(value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') {
    text.pop_back();
  }
  return text;
}

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const auto& word : words) {
    text += (text.empty() ? "" : ", ") + word;
  }
  return text;
}

bool is_device(const std::string& text) {
  if (text == "auto" || text == "cpu" || text == "cuda") {
    return true;
  }
  const std::string prefix = "cuda:";
  const std::string index = text.substr(std::min(prefix.size(), text.size()));
  const auto digit = [](unsigned char c) { return std::isdigit(c) != 0; };
  return text.starts_with(prefix) && !index.empty() && index.size() < 4 &&
         std::all_of(index.begin(), index.end(), digit);
}

bool is_folder_name(const std::string& text) {
  const auto plain = [](unsigned char c) { return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-'; };
  return !text.empty() && text.front() != '.' && std::all_of(text.begin(), text.end(), plain);
}

size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> previous(b.size() + 1);
  std::iota(previous.begin(), previous.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    std::vector<size_t> row(b.size() + 1, i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      row[j + 1] = std::min({previous[j] + (a[i] == b[j] ? 0 : 1), previous[j + 1] + 1, row[j] + 1});
    }
    previous = row;
  }
  return previous.back();
}

}  // namespace

FieldRule at_least(double lowest) {
  return {"of " + number_text(lowest) + " or more", [=](double value) { return value >= lowest; }, {}};
}

FieldRule above(double bound) {
  return {"above " + number_text(bound), [=](double value) { return value > bound; }, {}};
}

FieldRule between(double lowest, double highest) {
  return {"from " + number_text(lowest) + " to " + number_text(highest),
          [=](double value) { return value >= lowest && value <= highest; },
          {}};
}

FieldRule one_of(std::vector<std::string> choices) {
  return {"one of " + join(choices), {}, [choices](const std::string& text) {
            return std::find(choices.begin(), choices.end(), text) != choices.end();
          }};
}

FieldRule any_text(const std::string& expected) {
  return {expected, {}, {}};
}

FieldRule folder_name() {
  return {"letters, digits, '.', '_' and '-', not starting with '.'", {}, is_folder_name};
}

FieldRule device_name() {
  return {"auto, cpu, cuda or cuda:N", {}, is_device};
}

FieldRule window_letters() {
  return {"one or more of the letters S and L", {}, [](const std::string& text) {
            return !text.empty() && text.find_first_not_of("SL") == std::string::npos;
          }};
}

std::string nearest_word(const std::string& word, const std::vector<std::string>& known) {
  return *std::min_element(known.begin(), known.end(), [&](const auto& a, const auto& b) {
    return edit_distance(word, a) < edit_distance(word, b);
  });
}

}  // namespace bov::experiments
