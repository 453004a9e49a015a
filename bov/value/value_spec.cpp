#include "bov/value/value_spec.h"

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "bov/value/value_sources.h"

namespace bov {
namespace {

template <typename Enum, size_t N>
using Spellings = std::array<std::pair<Enum, const char*>, N>;

constexpr Spellings<ValueCombine, 2> kCombines{
    {{ValueCombine::replace, "replace"}, {ValueCombine::add, "add"}}};
constexpr Spellings<BankInit, 2> kInits{{{BankInit::aligned, "aligned"}, {BankInit::uniform, "uniform"}}};
constexpr Spellings<TargetRule, 5> kRules{{{TargetRule::last_third, "last_third"},
                                           {TargetRule::every_other, "every_other"},
                                           {TargetRule::every, "every"},
                                           {TargetRule::second_half, "second_half"},
                                           {TargetRule::last_two_thirds, "last_two_thirds"}}};

template <typename Enum, size_t N>
std::string spelling(const Spellings<Enum, N>& spellings, Enum value) {
  for (const auto& [known, text] : spellings) {
    if (known == value) return text;
  }
  TORCH_CHECK(false, "unknown enumerator ", static_cast<int>(value));
}

template <typename Enum, size_t N>
Enum parse(const char* axis, const Spellings<Enum, N>& spellings, const std::string& text) {
  std::vector<std::string> known;
  for (const auto& [value, spelled] : spellings) {
    if (text == spelled) return value;
    known.emplace_back(spelled);
  }
  TORCH_CHECK(false, axis, " '", text, "' is unknown; expected one of ", c10::Join(", ", known));
}

bool follows(TargetRule rule, int64_t layer, int64_t n_layer) {
  switch (rule) {
    case TargetRule::last_third:
      return layer >= 2 * n_layer / 3;
    case TargetRule::every_other:
      return layer % 2 == (n_layer - 1) % 2;
    case TargetRule::every:
      return true;
    case TargetRule::second_half:
      return layer >= n_layer / 2;
    case TargetRule::last_two_thirds:
      return layer >= n_layer / 3;
  }
  return false;
}

std::vector<int64_t> listed_layers(std::vector<int64_t> layers,
                                   const ValueSourceInfo& source,
                                   int64_t n_layer) {
  std::sort(layers.begin(), layers.end());
  for (size_t i = 0; i < layers.size(); ++i) {
    TORCH_CHECK(layers[i] >= 0 && layers[i] < n_layer, "layers: ", layers[i], " is no layer of a model with ",
                n_layer, " layers; expected 0 to ", n_layer - 1);
    TORCH_CHECK(i == 0 || layers[i] != layers[i - 1], "layers: ", layers[i], " is listed twice");
    TORCH_CHECK(layers[i] >= source.lowest_target, "layers: layer ", layers[i],
                " cannot take its values from '", source.name,
                "', which itself is made there; the lowest possible target is ", source.lowest_target);
  }
  return layers;
}

}  // namespace

std::string to_string(ValueCombine combine) {
  return spelling(kCombines, combine);
}
std::string to_string(BankInit init) {
  return spelling(kInits, init);
}

std::string to_string(const ValueCoefficient& coefficient) {
  switch (coefficient.kind) {
    case ValueCoefficient::Kind::learned:
      return "learned";
    case ValueCoefficient::Kind::learned_per_head:
      return "learned_per_head";
    case ValueCoefficient::Kind::gated:
      return "gated";
    case ValueCoefficient::Kind::fixed:
      break;
  }
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), coefficient.value).ptr;
  return {text.data(), end};
}

std::string to_string(const TargetLayers& layers) {
  if (const auto* rule = std::get_if<TargetRule>(&layers)) return spelling(kRules, *rule);
  return c10::str("[", c10::Join(", ", std::get<std::vector<int64_t>>(layers)), "]");
}

ValueCombine parse_value_combine(const std::string& text) {
  return parse("combine", kCombines, text);
}
BankInit parse_bank_init(const std::string& text) {
  return parse("init", kInits, text);
}
TargetRule parse_target_rule(const std::string& text) {
  return parse("layers", kRules, text);
}

ValueCoefficient parse_value_coefficient(const std::string& text) {
  if (text == "learned") return ValueCoefficient::learned();
  if (text == "learned_per_head") return ValueCoefficient::learned_per_head();
  if (text == "gated") return ValueCoefficient::gated();
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  TORCH_CHECK(error == std::errc() && end == text.data() + text.size() && std::isfinite(value),
              "coefficient '", text, "' is unknown; expected a number, learned, learned_per_head or gated");
  return ValueCoefficient::fixed(value);
}

void ValueSpec::validate() const {
  const ValueSourceInfo& info = value_source_info(source);
  TORCH_CHECK(
      combine == ValueCombine::replace || source != "stream",
      "combine: add with source: stream adds V to itself; expected another source, or combine: replace");
  TORCH_CHECK(info.has_table || !shared, "shared: true needs a source with a table; '", source, "' has none");
  TORCH_CHECK(info.has_table || init == BankInit::aligned, "init: ", to_string(init),
              " needs a source with a table; '", source, "' has none");
  TORCH_CHECK(std::isfinite(coefficient.value), "coefficient: ", coefficient.value,
              " is not a finite number");
}

std::vector<int64_t> target_layers(const ValueSpec& spec, int64_t n_layer) {
  const ValueSourceInfo& source = value_source_info(spec.source);
  std::vector<int64_t> targets;
  if (const auto* rule = std::get_if<TargetRule>(&spec.layers)) {
    for (int64_t layer = source.lowest_target; layer < n_layer; ++layer) {
      if (follows(*rule, layer, n_layer)) targets.push_back(layer);
    }
  } else {
    targets = listed_layers(std::get<std::vector<int64_t>>(spec.layers), source, n_layer);
  }
  TORCH_CHECK(!targets.empty(), "layers: ", to_string(spec.layers), " leaves no layer of a model with ",
              n_layer, " layers for source '", spec.source, "'");
  return targets;
}

}  // namespace bov
