#include "bov/io/nanochat_names.h"

#include <ATen/ATen.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "bov/io/module_state.h"
#include "bov/model/gpt.h"
#include "bov/value/presets.h"
#include "support/catch.h"
#include "support/tensor_compare.h"

namespace bov {
namespace {

using Catch::Contains;
using nlohmann::json;
using testing::bitwise_equal;

GPTOptions small_options(const ValueSpec& spec) {
  GPTOptions options;
  options.sequence_length = 16;
  options.vocab_size = 11;
  options.n_layer = 3;
  options.n_head = options.n_kv_head = 2;
  options.n_embd = 32;
  options.value = spec;
  return options;
}

TensorMap with_prefix(const SafetensorsReader& reader, const std::string& prefix) {
  TensorMap tensors;
  for (const auto& [name, info] : reader.tensors()) {
    if (name.rfind(prefix, 0) == 0) tensors[name.substr(prefix.size())] = reader.tensor(name);
  }
  return tensors;
}

ValueSpec spec_of(const json& axes) {
  if (axes.contains("preset")) return value_preset(axes.at("preset"));
  ValueSpec spec;
  spec.combine = parse_value_combine(axes.at("combine"));
  spec.source = axes.at("source");
  spec.layers = parse_target_rule(axes.at("layers"));
  const json& coefficient = axes.at("coefficient");
  spec.coefficient =
      parse_value_coefficient(coefficient.is_string() ? coefficient.get<std::string>() : coefficient.dump());
  spec.shared = axes.value("shared", false);
  if (axes.contains("init")) spec.init = parse_bank_init(axes.at("init"));
  return spec;
}

GPTOptions options_of(const json& entry) {
  GPTOptions options = small_options(spec_of(entry.at("value")));
  const json& shape = entry.at("shape");
  options.sequence_length = shape.at("sequence_len");
  options.vocab_size = shape.at("vocab_size");
  options.n_layer = shape.at("n_layer");
  return options;
}

TEST_CASE("the state dict of every golden file maps to a model's parameters and back") {
  const std::filesystem::path folder = BOV_GOLDEN_DIR;
  const json index = json::parse(std::ifstream(folder / "index.json"));
  REQUIRE(index.size() == 19);
  for (const json& entry : index) {
    const std::string file = entry.at("file");
    INFO(file);
    const SafetensorsReader reader(folder / file);
    const TensorMap published = with_prefix(reader, "init/");
    const TensorMap gradients = with_prefix(reader, "grad/");
    const GPTOptions options = options_of(entry);

    const NanochatImport imported = import_nanochat(published, options);
    // The published parameters without a gradient are the dead ones.
    std::set<std::string> dead;
    for (const auto& [name, tensor] : published) {
      if (!gradients.count(name)) dead.insert(name);
    }
    CHECK(std::set<std::string>(imported.dropped.begin(), imported.dropped.end()) == dead);
    CHECK(imported.parameters.size() == gradients.size());

    GPT model(options);
    load_parameters(*model, imported.parameters);
    const TensorMap exported = export_nanochat(module_state(*model), options);
    CHECK(exported.size() == published.size());
    for (const auto& [name, tensor] : published) {
      INFO(name);
      REQUIRE(exported.count(name) == 1);
      CHECK(bitwise_equal(exported.at(name), dead.count(name) ? at::zeros_like(tensor) : tensor));
      if (dead.count(name)) continue;
      CHECK(to_nanochat(from_nanochat(name, options), options) == name);
    }
  }
}

TEST_CASE("names of a shared bank, an additive bank and a gated bank are the published ones") {
  ValueSpec spec;
  spec.source = "bank";
  spec.coefficient = ValueCoefficient::learned();
  spec.layers = std::vector<int64_t>{2, 1};
  spec.shared = true;
  GPTOptions options = small_options(spec);
  CHECK(to_nanochat("shared_bank.table", options) == "value_embeds.1.weight");
  CHECK(to_nanochat("blocks.2.attention.value.gamma", options) == "transformer.h.2.attn.gamma_v");
  CHECK(from_nanochat("transformer.h.0.attn.c_v.weight", options) == "blocks.0.attention.value.projection");
  CHECK(dead_nanochat_names(options) ==
        std::vector<std::string>{"transformer.h.1.attn.c_v.weight", "transformer.h.2.attn.c_v.weight"});
  // 2 for embedding and head, 2 for smear, the table, 5 a layer, W_V of layer 0, two γ.
  CHECK(nanochat_names(options).size() == 2 + 2 + 1 + 3 * 5 + 1 + 2);

  options.value.shared = false;
  options.value.combine = ValueCombine::add;
  CHECK(from_nanochat("value_embeds.2.weight", options) == "blocks.2.attention.value.bank.table");
  CHECK(from_nanochat("transformer.h.1.attn.alpha_v", options) == "blocks.1.attention.value.alpha");
  CHECK(from_nanochat("transformer.h.1.attn.beta_v", options) == "blocks.1.attention.value.beta");
  CHECK(dead_nanochat_names(options).empty());

  options.value.coefficient = ValueCoefficient::gated();
  CHECK(to_nanochat("blocks.1.attention.value.gate", options) == "transformer.h.1.attn.ve_gate.weight");
  CHECK(to_nanochat("smear.lambda", options) == "smear_lambda");
  CHECK(to_nanochat("blocks.0.mlp.down", options) == "transformer.h.0.mlp.c_proj.weight");

  options.value.coefficient = ValueCoefficient::learned_per_head();
  CHECK_THROWS_WITH(nanochat_names(options), Catch::Contains("learned_per_head has no known name"));
}

TEST_CASE("an unknown name is refused with the nearest known one") {
  const GPTOptions options = small_options(value_preset("bov"));
  CHECK_THROWS_WITH(from_nanochat("transformer.h.0.attn.c_qq.weight", options),
                    Contains("published parameter 'transformer.h.0.attn.c_qq.weight' is unknown") &&
                        Contains("nearest known name is 'transformer.h.0.attn.c_q.weight'"));
  CHECK_THROWS_WITH(to_nanochat("block.1.mlp.up", options),
                    Contains("bov parameter 'block.1.mlp.up' is unknown") && Contains("'blocks.1.mlp.up'"));
  // No value matrix of a replaced layer exists here.
  CHECK_THROWS_WITH(from_nanochat("transformer.h.2.attn.c_v.weight", options), Contains("is unknown"));
}

TEST_CASE("state dicts with missing or unknown names are refused") {
  const GPTOptions options = small_options(value_preset("bov"));
  GPT model(options);
  const TensorMap published = export_nanochat(module_state(*model), options);
  TensorMap changed = published;
  changed.erase("lm_head.weight");
  CHECK_THROWS_WITH(import_nanochat(changed, options),
                    Contains("published parameters are missing: lm_head.weight"));
  changed = published;
  changed["transformer.wpe.weight"] = at::zeros({1});
  CHECK_THROWS_WITH(import_nanochat(changed, options),
                    Contains("'transformer.wpe.weight' is unknown") && Contains("'transformer.wte.weight'"));
  changed = published;
  changed.erase("transformer.h.2.attn.c_v.weight");
  CHECK(import_nanochat(changed, options).dropped.empty());
  CHECK_THROWS_WITH(export_nanochat({{"embedding", at::zeros({1})}}, options), Contains("head, smear.gate"));
}

TEST_CASE("a model without smear exports an idle smear gate and imports no other") {
  GPTOptions options = small_options(value_preset("standard"));
  options.smear = false;
  GPT model(options);
  TensorMap published = export_nanochat(module_state(*model), options);
  CHECK(bitwise_equal(published.at("smear_gate.weight"), at::zeros({1, 24})));
  CHECK(bitwise_equal(published.at("smear_lambda"), at::zeros({1})));
  CHECK(import_nanochat(published, options).dropped ==
        std::vector<std::string>{"smear_gate.weight", "smear_lambda"});
  published["smear_lambda"].fill_(0.5);
  CHECK_THROWS_WITH(import_nanochat(published, options),
                    Contains("smear_lambda is 0.5") && Contains("smear: true"));
}

TEST_CASE("parameters load by name into a model, or not at all") {
  const GPTOptions options = small_options(value_preset("bov"));
  GPT source(options);
  GPT target(options);
  const TensorMap state = module_state(*source);
  const at::Tensor before = target->head.detach().clone();
  CHECK_FALSE(state.at("head").requires_grad());
  CHECK(state.at("head").data_ptr() == source->head.data_ptr());

  TensorMap wrong = state;
  wrong.erase("head");
  wrong["heads"] = at::zeros({1});
  wrong["embedding"] = at::zeros({11, 31});
  wrong["smear.lambda"] = at::zeros({1}, at::kDouble);
  CHECK_THROWS_WITH(
      load_parameters(*target, wrong),
      Contains("missing: head; unexpected: heads; different: embedding is Float [11, 31], expected Float "
               "[11, 32], smear.lambda is Double [1], expected Float [1]"));
  CHECK_THROWS_WITH(load_parameters(*target, {}),
                    Contains("and " + std::to_string(state.size() - 10) + " more"));
  CHECK(bitwise_equal(target->head, before));

  TensorMap doubles;
  for (const auto& [name, tensor] : state) doubles[name] = tensor.to(at::kDouble);
  CHECK_THROWS_WITH(load_parameters(*target, doubles), Contains("expected Float"));
  load_parameters(*target, doubles, /*convert_dtype=*/true);
  for (const auto& [name, tensor] : module_state(*target)) CHECK(bitwise_equal(tensor, state.at(name)));
  CHECK(target->head.requires_grad());
}

}  // namespace
}  // namespace bov
