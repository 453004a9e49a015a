#include <ATen/record_function.h>
#include <torch/autograd.h>
#include <torch/types.h>

#include <string_view>

#include "bov/model/gpt.h"
#include "bov/model/rms_norm.h"
#include "bov/value/presets.h"
#include "bov/value/value_mixer.h"
#include "support/catch.h"
#include "support/finite_difference.h"
#include "support/tensor_compare.h"

namespace bov {
namespace {

using testing::gradient_error;
using testing::relative_error;

/// Every combination of the axes that validate() accepts.
std::vector<ValueSpec> every_spec() {
  std::vector<ValueSpec> specs;
  for (const std::string& source : value_source_names()) {
    for (const auto combine : {ValueCombine::replace, ValueCombine::add}) {
      for (const auto& coefficient : {ValueCoefficient::fixed(0.5), ValueCoefficient::learned(),
                                      ValueCoefficient::learned_per_head(), ValueCoefficient::gated()}) {
        for (const bool shared : {false, true}) {
          if (combine == ValueCombine::add && source == "stream") continue;
          if (shared && source != "bank") continue;
          specs.push_back({.combine = combine,
                           .coefficient = coefficient,
                           .source = source,
                           .layers = TargetRule::second_half,
                           .shared = shared});
        }
      }
    }
  }
  return specs;
}

std::string describe(const ValueSpec& spec) {
  return to_string(spec.combine) + " " + to_string(spec.coefficient) + " " + spec.source +
         (spec.shared ? " shared" : "");
}

GPTOptions small_gpt(const ValueSpec& spec) {
  GPTOptions options;
  options.sequence_length = 7;
  options.vocab_size = 11;
  options.n_layer = 4;
  options.n_head = 4;
  options.n_kv_head = 2;
  options.n_embd = 24;
  options.value = spec;
  options.parameter_dtype = options.table_dtype = options.compute_dtype = torch::kFloat64;
  return options;
}

/// Random values everywhere, so that no path is silent at a zero.
GPT randomised(const GPTOptions& options) {
  torch::manual_seed(7);
  GPT model(options);
  torch::NoGradGuard no_grad;
  for (auto& parameter : model->parameters()) parameter.normal_(0, 0.3);
  return model;
}

TEST_CASE("gradients of every point of the value space agree with finite differences") {
  const torch::Tensor ids = torch::tensor({{3, 1, 4, 1, 5, 9, 2}, {6, 5, 3, 5, 8, 9, 7}}, torch::kInt64);
  const torch::Tensor targets = ids.roll(-1, 1);
  for (const ValueSpec& spec : every_spec()) {
    GPT model = randomised(small_gpt(spec));
    INFO(describe(spec));
    // Central differences in float64 are good to about 1e-9 of the gradient's scale.
    CHECK(gradient_error([&](const auto&) { return model->loss(ids, targets); }, model->parameters(),
                         {.max_entries = 12}) < 1e-6);
  }
}

TEST_CASE("a mixer computes the formula of its axes") {
  torch::manual_seed(3);
  const auto f64 = torch::TensorOptions(torch::kFloat64);
  ValueInputs inputs;
  inputs.hidden = torch::randn({2, 5, 12}, f64);
  inputs.x0 = torch::randn({2, 5, 12}, f64);
  inputs.first_layer_values = torch::randn({2, 5, 3, 4}, f64);
  inputs.shared_values = torch::randn({2, 5, 3, 4}, f64);
  inputs.token_ids = torch::randint(0, 9, {2, 5}, torch::kInt64);
  for (const ValueSpec& spec : every_spec()) {
    INFO(describe(spec));
    ValueMixer mixer(ValueMixerOptions(12, 3, 4)
                         .vocab_size(9)
                         .spec(spec)
                         .parameter_dtype(torch::kFloat64)
                         .table_dtype(torch::kFloat64));
    torch::NoGradGuard no_grad;
    for (auto& parameter : mixer->parameters()) parameter.normal_();
    const auto projected = [&](const torch::Tensor& x) {
      return x.matmul(mixer->projection.t()).view({2, 5, 3, 4});
    };
    torch::Tensor source;
    if (spec.source == "stream") source = projected(inputs.hidden);
    if (spec.source == "embedding") source = projected(inputs.x0);
    if (spec.source == "first_layer") source = inputs.first_layer_values;
    if (spec.source == "bank") {
      source = spec.shared ? inputs.shared_values
                           : mixer->bank()->table.index({inputs.token_ids}).view({2, 5, 3, 4});
    }
    torch::Tensor a, b;
    switch (spec.coefficient.kind) {
      case ValueCoefficient::Kind::fixed:
        a = b = torch::tensor(spec.coefficient.value, f64);
        break;
      case ValueCoefficient::Kind::learned:
        a = mixer->alpha;
        b = mixer->beta.defined() ? mixer->beta : mixer->gamma;
        break;
      case ValueCoefficient::Kind::learned_per_head:
        REQUIRE((mixer->beta.defined() ? mixer->beta : mixer->gamma).sizes() == torch::IntArrayRef({3}));
        a = mixer->alpha.defined() ? mixer->alpha.view({3, 1}) : mixer->alpha;
        b = (mixer->beta.defined() ? mixer->beta : mixer->gamma).view({3, 1});
        break;
      case ValueCoefficient::Kind::gated:
        a = torch::ones({1}, f64);
        b = 3 * torch::sigmoid(inputs.hidden.matmul(mixer->gate.t())).unsqueeze(-1);
        break;
    }
    const torch::Tensor expected =
        spec.combine == ValueCombine::replace ? b * source : a * projected(inputs.hidden) + b * source;
    // One matmul in place of two reorders sums of 12 products.
    CHECK(relative_error(mixer->forward(inputs), expected) < 1e-14);
  }
}

TEST_CASE("a sum with the embedding's projection is one matmul") {
  static int projections;
  const auto f64 = torch::TensorOptions(torch::kFloat64);
  ValueInputs inputs;
  inputs.hidden = torch::randn({2, 5, 12}, f64);
  inputs.x0 = torch::randn({2, 5, 12}, f64);
  for (const auto& coefficient : {ValueCoefficient::fixed(0.5), ValueCoefficient::learned()}) {
    INFO(to_string(coefficient));
    ValueMixer mixer(
        ValueMixerOptions(12, 3, 4)
            .vocab_size(9)
            .spec({.combine = ValueCombine::add, .coefficient = coefficient, .source = "embedding"})
            .parameter_dtype(torch::kFloat64));
    projections = 0;
    const auto handle =
        at::addThreadLocalCallback(at::RecordFunctionCallback([](const at::RecordFunction& function)
                                                                  -> std::unique_ptr<at::ObserverContext> {
                                     projections += std::string_view(function.name()) == "aten::linear";
                                     return nullptr;
                                   }).scopes({at::RecordScope::FUNCTION}));
    mixer->forward(inputs);
    at::removeCallback(handle);
    CHECK(projections == 1);
  }
}

TEST_CASE("a layer allocates a value projection only where it is used") {
  const auto has_projection = [](const ValueSpec& spec, int64_t layer) {
    GPT model(small_gpt(spec));
    return model->named_parameters().contains("blocks." + std::to_string(layer) +
                                              ".attention.value.projection");
  };
  CHECK(has_projection(value_preset("standard"), 3));
  CHECK(has_projection(value_preset("replace_embedding"), 3));
  CHECK(has_projection(value_preset("bov_add"), 3));
  CHECK(has_projection(value_preset("bov"), 1));
  CHECK_FALSE(has_projection(value_preset("bov"), 3));
  CHECK_FALSE(has_projection(value_preset("svformer"), 1));
  CHECK(has_projection(value_preset("svformer"), 0));
}

TEST_CASE("decoding keeps what each point needs") {
  const auto need = [](const ValueSpec& spec) {
    return ValueMixer(ValueMixerOptions(12, 3, 4).vocab_size(9).spec(spec))->cache_need();
  };
  CHECK(need(value_preset("standard")) == ValueCacheNeed::own_values);
  CHECK(need(value_preset("svformer")) == ValueCacheNeed::first_layer_values);
  CHECK(need(value_preset("bov")) == ValueCacheNeed::token_ids);
  CHECK(need(value_preset("bov_add")) == ValueCacheNeed::own_values);
  CHECK(need(value_preset("replace_embedding")) == ValueCacheNeed::own_values);
}

TEST_CASE("variants seeded alike share their starting parameters") {
  const auto parameters = [](const std::string& preset) {
    torch::manual_seed(42);
    return GPT(small_gpt(value_preset(preset)))->named_parameters();
  };
  const auto standard = parameters("standard");
  for (const ValuePreset& preset : value_presets()) {
    for (const auto& parameter : parameters(preset.name)) {
      if (const auto* same = standard.find(parameter.key())) {
        INFO(preset.name << " " << parameter.key());
        CHECK(torch::equal(*same, parameter.value()));
      }
    }
  }
}

TEST_CASE("an aligned bank starts as the embedding variant") {
  const torch::Tensor ids = torch::tensor({{3, 1, 4, 1, 5}}, torch::kInt64);
  const auto values = [&](const std::string& preset) {
    torch::manual_seed(1);
    GPT model(small_gpt(value_preset(preset)));
    ValueInputs inputs;
    inputs.token_ids = ids;
    inputs.x0 = rms_norm(rms_norm(torch::embedding(model->embedding, ids)));
    inputs.hidden = inputs.x0;
    return model->blocks[3]->as<BlockImpl>()->attention->values(inputs);
  };
  // RMSNorm twice equals once up to epsilon (1e-7 of the mean square).
  CHECK(relative_error(values("bov"), values("replace_embedding")) < 1e-6);
}

TEST_CASE("a clone of a GPT computes the same and shares nothing") {
  const torch::Tensor ids = torch::tensor({{3, 1, 4, 1, 5, 9}}, torch::kInt64);
  for (const ValuePreset& preset : value_presets()) {
    INFO(preset.name);
    GPT model = randomised(small_gpt(preset.spec));
    GPT copy(std::dynamic_pointer_cast<GPTImpl>(model->clone()));
    const torch::Tensor before = model->forward(ids).detach();
    CHECK(torch::equal(before, copy->forward(ids)));
    torch::NoGradGuard no_grad;
    for (auto& parameter : copy->parameters()) parameter.zero_();
    CHECK(torch::equal(before, model->forward(ids)));
  }
}

TEST_CASE("target layers follow the published rules") {
  const auto layers = [](const std::string& source, TargetRule rule, int64_t n_layer) {
    return target_layers({.source = source, .layers = rule}, n_layer);
  };
  using V = std::vector<int64_t>;
  CHECK(layers("bank", TargetRule::last_third, 12) == V{8, 9, 10, 11});
  CHECK(layers("bank", TargetRule::last_third, 24) == V{16, 17, 18, 19, 20, 21, 22, 23});
  CHECK(layers("bank", TargetRule::every_other, 12) == V{1, 3, 5, 7, 9, 11});
  CHECK(layers("bank", TargetRule::every_other, 5) == V{0, 2, 4});
  CHECK(layers("first_layer", TargetRule::every_other, 5) == V{2, 4});
  CHECK(layers("bank", TargetRule::every, 3) == V{0, 1, 2});
  CHECK(layers("first_layer", TargetRule::every, 3) == V{1, 2});
  CHECK(layers("bank", TargetRule::second_half, 12) == V{6, 7, 8, 9, 10, 11});
  CHECK(layers("bank", TargetRule::last_two_thirds, 12) == V{4, 5, 6, 7, 8, 9, 10, 11});
  CHECK(target_layers({.source = "bank", .layers = V{5, 2}}, 6) == V{2, 5});
}

TEST_CASE("impossible specs are refused by name") {
  using V = std::vector<int64_t>;
  const auto error = [](const ValueSpec& spec) {
    return [spec] {
      spec.validate();
      target_layers(spec, 6);
    };
  };
  CHECK_THROWS_WITH(error({.source = "streem"})(),
                    Catch::Contains("'streem'") && Catch::Contains("first_layer, embedding, bank"));
  CHECK_THROWS_WITH(error({.combine = ValueCombine::add})(), Catch::Contains("adds V to itself"));
  CHECK_THROWS_WITH(error({.shared = true})(),
                    Catch::Contains("shared: true needs a source with a table; 'stream'"));
  CHECK_THROWS_WITH(error({.init = BankInit::uniform})(), Catch::Contains("init: uniform"));
  CHECK_THROWS_WITH(error({.source = "first_layer", .layers = V{0}})(),
                    Catch::Contains("layer 0 cannot take its values from 'first_layer'"));
  CHECK_THROWS_WITH(error({.source = "bank", .layers = V{}})(), Catch::Contains("leaves no layer"));
  CHECK_THROWS_WITH(error({.source = "bank", .layers = V{6}})(),
                    Catch::Contains("6 is no layer of a model with 6 layers"));
  CHECK_THROWS_WITH(error({.source = "bank", .layers = V{2, 2}})(), Catch::Contains("2 is listed twice"));
  CHECK_THROWS_WITH(parse_value_coefficient("lerned"),
                    Catch::Contains("'lerned'") && Catch::Contains("learned, learned_per_head or gated"));
  CHECK_THROWS_WITH(parse_value_coefficient("nan"), Catch::Contains("'nan'"));
  CHECK_THROWS_WITH(parse_target_rule("last_thrid"),
                    Catch::Contains("'last_thrid'") && Catch::Contains("last_third"));
  CHECK_THROWS_WITH(value_preset("bank"), Catch::Contains("'bank'") && Catch::Contains("bov_add"));
  CHECK_THROWS_WITH(register_value_source({.name = "bank"}), Catch::Contains("'bank' is registered already"));
}

TEST_CASE("axes are written as they are read") {
  for (const ValuePreset& preset : value_presets()) {
    CHECK(parse_value_combine(to_string(preset.spec.combine)) == preset.spec.combine);
    CHECK(parse_value_coefficient(to_string(preset.spec.coefficient)) == preset.spec.coefficient);
    CHECK(parse_bank_init(to_string(preset.spec.init)) == preset.spec.init);
    CHECK(parse_target_rule(to_string(preset.spec.layers)) == std::get<TargetRule>(preset.spec.layers));
  }
  const auto per_head = ValueCoefficient::learned_per_head();
  CHECK(parse_value_coefficient(to_string(per_head)) == per_head);
  CHECK(to_string(TargetLayers(std::vector<int64_t>{8, 9})) == "[8, 9]");
}

TEST_CASE("a bank is aligned in float32, whatever the embedding's dtype") {
  torch::manual_seed(3);
  BankOfValues bank(5, 2, 3);
  const auto embedding = torch::randn({5, 4}).to(torch::kBFloat16);
  const auto projection = torch::randn({6, 4}).to(torch::kBFloat16);
  bank->align(embedding, projection);
  const auto rounded = bank->table.detach().clone();
  bank->align(embedding.to(torch::kFloat32), projection.to(torch::kFloat32));
  CHECK(torch::equal(bank->table, rounded));
}

TEST_CASE("a bank works alone, in any dtype, and names a bad id") {
  BankOfValues bank(BankOfValuesOptions(5, 2, 3).dtype(torch::kBFloat16));
  const torch::Tensor ids = torch::tensor({{4, 0}, {1, 4}}, torch::kInt64);
  const torch::Tensor values = bank->forward(ids, torch::kFloat32);
  CHECK(values.sizes() == torch::IntArrayRef({2, 2, 2, 3}));
  CHECK(torch::equal(values[0][0], bank->table[4].view({2, 3}).to(torch::kFloat32)));
  CHECK_THROWS_WITH(bank->forward(torch::tensor({5})), Catch::Contains("5"));
  CHECK_THROWS_WITH(bank->align(torch::zeros({5, 4}), torch::zeros({6, 3})), Catch::Contains("[5, 4]"));
}

TEST_CASE("the gate is recorded on demand") {
  ValueMixer mixer(ValueMixerOptions(12, 3, 4).vocab_size(9).spec(value_preset("value_embedding_gated")));
  ValueInputs inputs;
  inputs.hidden = torch::randn({1, 4, 12});
  inputs.token_ids = torch::tensor({{0, 8, 3, 3}}, torch::kInt64);
  mixer->forward(inputs);
  CHECK_FALSE(mixer->gate_statistics().has_value());
  mixer->record_gate(true);
  {
    torch::NoGradGuard no_grad;
    mixer->gate.zero_();
  }
  mixer->forward(inputs);
  CHECK(mixer->gate_statistics()->mean == 1.5);
  CHECK(mixer->gate_statistics()->deviation == 0.0);
}

}  // namespace
}  // namespace bov
