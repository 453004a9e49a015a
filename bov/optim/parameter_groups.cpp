#include "bov/optim/parameter_groups.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace bov {
namespace {

constexpr double kEps = 1e-10;

struct NameRule {
  std::string_view pattern;  ///< `*` stands for a layer index
  ParameterRole role;
};

constexpr std::array kNameRules = {
    NameRule{"head", ParameterRole::kHead},
    NameRule{"embedding", ParameterRole::kEmbedding},
    NameRule{"smear.gate", ParameterRole::kSmear},
    NameRule{"smear.lambda", ParameterRole::kSmear},
    NameRule{"shared_bank.table", ParameterRole::kBank},
    NameRule{"blocks.*.attention.value.bank.table", ParameterRole::kBank},
    NameRule{"blocks.*.attention.value.alpha", ParameterRole::kAlpha},
    NameRule{"blocks.*.attention.value.beta", ParameterRole::kCoefficient},
    NameRule{"blocks.*.attention.value.gamma", ParameterRole::kCoefficient},
    NameRule{"blocks.*.attention.value.projection", ParameterRole::kMatrix},
    NameRule{"blocks.*.attention.value.gate", ParameterRole::kMatrix},
    NameRule{"blocks.*.attention.query", ParameterRole::kMatrix},
    NameRule{"blocks.*.attention.key", ParameterRole::kMatrix},
    NameRule{"blocks.*.attention.output", ParameterRole::kMatrix},
    NameRule{"blocks.*.mlp.up", ParameterRole::kMatrix},
    NameRule{"blocks.*.mlp.down", ParameterRole::kMatrix},
};

bool matches(std::string_view pattern, std::string_view name) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == name;
  const std::string_view head = pattern.substr(0, star), tail = pattern.substr(star + 1);
  if (name.size() <= head.size() + tail.size() || !name.starts_with(head) || !name.ends_with(tail))
    return false;
  const std::string_view index = name.substr(head.size(), name.size() - head.size() - tail.size());
  return index.find_first_not_of("0123456789") == std::string_view::npos;
}

AdamWOptions adamw(double learning_rate, double beta1, double beta2, double weight_decay) {
  return AdamWOptions(learning_rate).betas({beta1, beta2}).eps(kEps).weight_decay(weight_decay);
}

std::vector<ParameterGroup> empty_groups(int64_t n_embd, const OptimizerRates& rates) {
  const double batch = rates.batch_scale;
  const double width = std::pow(static_cast<double>(n_embd) / 768.0, -0.5);
  const auto muon = MuonOptions(rates.matrix * batch).weight_decay(rates.weight_decay);
  return {
      {ParameterRole::kHead, {}, {}, adamw(rates.unembedding * batch * width, 0.8, 0.96, 0.01)},
      {ParameterRole::kEmbedding, {}, {}, adamw(rates.embedding * batch * width, 0.8, 0.995, 0.001)},
      {ParameterRole::kSmear, {}, {}, adamw(rates.smear, 0.8, 0.95, 0.0)},
      {ParameterRole::kAlpha,
       {},
       {},
       adamw(rates.alpha_ratio * rates.scalar * batch, rates.alpha_beta1, 0.95, rates.alpha_weight_decay)},
      {ParameterRole::kCoefficient, {}, {}, adamw(rates.scalar * batch, rates.scalar_beta1, 0.95, 0.0)},
      {ParameterRole::kBank, {}, {}, adamw(0.5 * rates.embedding * batch * width, 0.8, 0.995, 0.01)},
      {ParameterRole::kMatrix, {}, {}, muon},
  };
}

}  // namespace

std::string to_string(ParameterRole role) {
  switch (role) {
    case ParameterRole::kHead:
      return "head";
    case ParameterRole::kEmbedding:
      return "embedding";
    case ParameterRole::kSmear:
      return "smear";
    case ParameterRole::kAlpha:
      return "alpha";
    case ParameterRole::kCoefficient:
      return "coefficient";
    case ParameterRole::kBank:
      return "bank";
    case ParameterRole::kMatrix:
      return "matrix";
  }
  TORCH_CHECK(false, "to_string: no ParameterRole has the number ", static_cast<int>(role));
}

ParameterRole parameter_role(std::string_view name) {
  const auto rule = std::find_if(kNameRules.begin(), kNameRules.end(),
                                 [&](const NameRule& candidate) { return matches(candidate.pattern, name); });
  TORCH_CHECK(rule != kNameRules.end(), "no optimizer group for parameter '", name,
              "': it is not a parameter name of bov::GPT");
  return rule->role;
}

std::vector<ParameterGroup> published_parameter_groups(
    const torch::OrderedDict<std::string, at::Tensor>& named_parameters,
    int64_t n_embd,
    const OptimizerRates& rates) {
  TORCH_CHECK(n_embd >= 1, "published_parameter_groups: n_embd must be at least 1, got ", n_embd);
  auto groups = empty_groups(n_embd, rates);
  for (const auto& item : named_parameters) {
    const auto role = parameter_role(item.key());
    const auto group =
        std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.role == role; });
    group->names.push_back(item.key());
    group->parameters.push_back(item.value());
  }
  std::erase_if(groups, [](const ParameterGroup& group) { return group.names.empty(); });
  return groups;
}

}  // namespace bov
