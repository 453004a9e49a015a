#include "experiments/report/value_formula.h"

#include <map>

namespace bov::experiments {
namespace {

bool is_standard(const ValueSpec& spec) {
  return spec.combine == ValueCombine::replace && spec.source == "stream" &&
         spec.coefficient == ValueCoefficient::fixed(1.0);
}

std::string source_symbol(const ValueSpec& spec) {
  static const std::map<std::string, std::string> symbols{
      {"stream", "V"}, {"first_layer", "V1"}, {"embedding", "x0·W_V"}, {"bank", "E_V[i]"}};
  if (spec.shared) return "E[i]";
  const auto known = symbols.find(spec.source);
  return known == symbols.end() ? spec.source : known->second;
}

// "γ·V1"; a factor of 1 is left out.
std::string times(const std::string& factor, const std::string& value) {
  return factor == "1" ? value : factor + "·" + value;
}

}  // namespace

std::string value_formula(const ValueSpec& spec) {
  const std::string source = source_symbol(spec);
  const bool added = spec.combine == ValueCombine::add;
  const std::string number = to_string(spec.coefficient);
  switch (spec.coefficient.kind) {
    case ValueCoefficient::Kind::fixed:
      return added ? times(number, "V") + " + " + times(number, source) : times(number, source);
    case ValueCoefficient::Kind::learned:
      return added ? "α·V + β·" + source : "γ·" + source;
    case ValueCoefficient::Kind::learned_per_head:
      return added ? "α_h·V + β_h·" + source : "γ_h·" + source;
    case ValueCoefficient::Kind::gated:
      return added ? "V + g·" + source : "g·" + source;
  }
  return source;
}

std::string coefficient_text(const ValueSpec& spec) {
  return is_standard(spec) ? "-" : to_string(spec.coefficient);
}

std::string layer_list_text(const std::vector<int64_t>& layers) {
  std::string text;
  for (size_t i = 0; i < layers.size();) {
    size_t end = i + 1;
    while (end < layers.size() && layers[end] == layers[end - 1] + 1) ++end;
    text.append(text.empty() ? "" : ",").append(std::to_string(layers[i]));
    if (end > i + 1) text.append("-").append(std::to_string(layers[end - 1]));
    i = end;
  }
  return text;
}

std::string target_layers_text(const ValueSpec& spec, int64_t n_layer) {
  return is_standard(spec) ? "-" : layer_list_text(target_layers(spec, n_layer));
}

}  // namespace bov::experiments
