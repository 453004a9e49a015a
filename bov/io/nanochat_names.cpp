#include "bov/io/nanochat_names.h"

#include <ATen/ops/zeros.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <numeric>

#include "bov/value/value_sources.h"

namespace bov {
namespace {

constexpr int64_t kSmearChannels = 24;
constexpr const char* kSmearGate = "smear_gate.weight";
constexpr const char* kSmearLambda = "smear_lambda";

std::string published_layer(int64_t layer) {
  return "transformer.h." + std::to_string(layer);
}
std::string bov_layer(int64_t layer) {
  return "blocks." + std::to_string(layer);
}
std::string published_projection(int64_t layer) {
  return published_layer(layer) + ".attn.c_v.weight";
}
std::string published_table(int64_t layer) {
  return "value_embeds." + std::to_string(layer) + ".weight";
}

// W_V is dead where it is replaced by something that it does not project.
bool projection_is_dead(const ValueSpec& spec, bool is_target) {
  return is_target && spec.combine == ValueCombine::replace && !value_source_info(spec.source).projects;
}

void append_coefficients(std::vector<NanochatName>& names, const ValueSpec& spec, int64_t layer) {
  const std::string ours = bov_layer(layer) + ".attention.value.";
  const std::string theirs = published_layer(layer) + ".attn.";
  TORCH_CHECK(spec.coefficient.kind != ValueCoefficient::Kind::learned_per_head,
              "coefficient: learned_per_head has no known name in the published code; expected another "
              "coefficient");
  if (spec.coefficient.kind == ValueCoefficient::Kind::gated) {
    names.push_back({ours + "gate", theirs + "ve_gate.weight"});
  } else if (spec.coefficient.kind == ValueCoefficient::Kind::learned &&
             spec.combine == ValueCombine::replace) {
    names.push_back({ours + "gamma", theirs + "gamma_v"});
  } else if (spec.coefficient.kind == ValueCoefficient::Kind::learned) {
    names.push_back({ours + "alpha", theirs + "alpha_v"});
    names.push_back({ours + "beta", theirs + "beta_v"});
  }
}

void append_layer(std::vector<NanochatName>& names, const ValueSpec& spec, int64_t layer, bool is_target) {
  const std::string ours = bov_layer(layer);
  const std::string theirs = published_layer(layer);
  names.push_back({ours + ".attention.query", theirs + ".attn.c_q.weight"});
  names.push_back({ours + ".attention.key", theirs + ".attn.c_k.weight"});
  if (!projection_is_dead(spec, is_target)) {
    names.push_back({ours + ".attention.value.projection", published_projection(layer)});
  }
  names.push_back({ours + ".attention.output", theirs + ".attn.c_proj.weight"});
  names.push_back({ours + ".mlp.up", theirs + ".mlp.c_fc.weight"});
  names.push_back({ours + ".mlp.down", theirs + ".mlp.c_proj.weight"});
  if (!is_target) return;
  append_coefficients(names, spec, layer);
  if (value_source_info(spec.source).has_table && !spec.shared) {
    names.push_back({ours + ".attention.value.bank.table", published_table(layer)});
  }
}

// Levenshtein distance.
size_t edit_distance(const std::string& left, const std::string& right) {
  std::vector<size_t> row(right.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < left.size(); ++i) {
    size_t diagonal = row[0]++;
    for (size_t j = 0; j < right.size(); ++j) {
      const size_t substituted = diagonal + (left[i] == right[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substituted, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

using NameMember = std::string NanochatName::*;

[[noreturn]] void fail_unknown(const char* kind,
                               const std::string& name,
                               const std::vector<NanochatName>& names,
                               NameMember side) {
  const auto nearest = std::min_element(names.begin(), names.end(), [&](const auto& left, const auto& right) {
    return edit_distance(name, left.*side) < edit_distance(name, right.*side);
  });
  TORCH_CHECK(false, kind, " '", name, "' is unknown for these options; the nearest known name is '",
              (*nearest).*side, "'");
}

std::string translate(const char* kind,
                      const std::string& name,
                      const std::vector<NanochatName>& names,
                      NameMember from,
                      NameMember to) {
  for (const auto& row : names) {
    if (row.*from == name) return row.*to;
  }
  fail_unknown(kind, name, names, from);
}

/// Renames every tensor. All of `names` must be there, and nothing else.
TensorMap translate_all(const char* kind,
                        const TensorMap& tensors,
                        const std::vector<NanochatName>& names,
                        NameMember from,
                        NameMember to) {
  TensorMap renamed;
  for (const auto& [name, tensor] : tensors) renamed[translate(kind, name, names, from, to)] = tensor;
  std::vector<std::string> missing;
  for (const auto& row : names) {
    if (!tensors.count(row.*from)) missing.push_back(row.*from);
  }
  TORCH_CHECK(missing.empty(), kind, "s are missing: ", c10::Join(", ", missing));
  return renamed;
}

constexpr const char* kOurs = "bov parameter";
constexpr const char* kTheirs = "published parameter";

}  // namespace

std::vector<NanochatName> nanochat_names(const GPTOptions& options) {
  const std::vector<int64_t> targets = target_layers(options.value, options.n_layer);
  std::vector<NanochatName> names{{"embedding", "transformer.wte.weight"}, {"head", "lm_head.weight"}};
  if (options.smear) {
    names.push_back({"smear.gate", kSmearGate});
    names.push_back({"smear.lambda", kSmearLambda});
  }
  if (options.value.shared) names.push_back({"shared_bank.table", published_table(targets.front())});
  for (int64_t layer = 0; layer < options.n_layer; ++layer) {
    append_layer(names, options.value, layer, std::binary_search(targets.begin(), targets.end(), layer));
  }
  return names;
}

std::vector<std::string> dead_nanochat_names(const GPTOptions& options) {
  std::vector<std::string> dead;
  for (const int64_t layer : target_layers(options.value, options.n_layer)) {
    if (projection_is_dead(options.value, true)) dead.push_back(published_projection(layer));
  }
  return dead;
}

std::string to_nanochat(const std::string& name, const GPTOptions& options) {
  return translate(kOurs, name, nanochat_names(options), &NanochatName::bov, &NanochatName::published);
}

std::string from_nanochat(const std::string& name, const GPTOptions& options) {
  return translate(kTheirs, name, nanochat_names(options), &NanochatName::published, &NanochatName::bov);
}

NanochatImport import_nanochat(const TensorMap& published, const GPTOptions& options) {
  NanochatImport result;
  TensorMap used = published;
  for (const auto& name : dead_nanochat_names(options)) {
    if (used.erase(name)) result.dropped.push_back(name);
  }
  if (!options.smear) {
    if (const auto lambda = used.find(kSmearLambda); lambda != used.end()) {
      TORCH_CHECK(lambda->second.count_nonzero().item<int64_t>() == 0, kSmearLambda, " is ",
                  lambda->second.item<double>(),
                  ", but the options have no smear; expected 0, or smear: true");
    }
    for (const char* name : {kSmearGate, kSmearLambda}) {
      if (used.erase(name)) result.dropped.emplace_back(name);
    }
  }
  result.parameters =
      translate_all(kTheirs, used, nanochat_names(options), &NanochatName::published, &NanochatName::bov);
  return result;
}

TensorMap export_nanochat(const TensorMap& parameters, const GPTOptions& options) {
  TensorMap published =
      translate_all(kOurs, parameters, nanochat_names(options), &NanochatName::bov, &NanochatName::published);
  const auto tensor_options = at::TensorOptions().dtype(options.parameter_dtype);
  for (const auto& name : dead_nanochat_names(options)) {
    published[name] = at::zeros({options.n_kv_head * options.head_dim(), options.n_embd}, tensor_options);
  }
  if (!options.smear) {
    published[kSmearGate] = at::zeros({1, kSmearChannels}, tensor_options);
    published[kSmearLambda] = at::zeros({1}, tensor_options);
  }
  return published;
}

}  // namespace bov
