#include "bov/model/accounting.h"
#include "bov/model/gpt.h"
#include "bov/optim/training_optimizer.h"
#include "bov/value/value_sources.h"
#include "support/catch.h"
#include "support/finite_difference.h"
#include "support/tensor_compare.h"

// A program of its own: a registered source stays for the rest of the process.
namespace bov {
namespace {

/// The previous token's embedding, projected by the layer's own W_V.
class PreviousEmbeddingSource : public ValueSource {
 public:
  torch::Tensor projection_input(const ValueInputs& inputs) const override {
    // Position 0 has no previous token: zeros.
    return torch::constant_pad_nd(inputs.x0.slice(1, 0, -1), {0, 0, 1, 0});
  }
};

ValueSourceInfo previous_embedding_source() {
  return {.name = "previous_embedding",
          .formula = "x_0[t-1]·W_V",
          .projects = true,
          .cache_need = ValueCacheNeed::own_values,
          .make = [](const ValueSpec&, const ValueShape&) {
            return std::make_shared<PreviousEmbeddingSource>();
          }};
}

void register_once() {
  static const bool registered = [] {
    register_value_source(previous_embedding_source());
    return true;
  }();
  CHECK(registered);
}

GPTOptions small_gpt(ValueCombine combine) {
  GPTOptions options;
  options.sequence_length = 7;
  options.vocab_size = 11;
  options.n_layer = 3;
  options.n_head = options.n_kv_head = 2;
  options.n_embd = 24;
  options.value = {.combine = combine,
                   .coefficient = ValueCoefficient::learned(),
                   .source = "previous_embedding",
                   .layers = TargetRule::last_third};
  options.parameter_dtype = options.table_dtype = options.compute_dtype = torch::kFloat64;
  return options;
}

TEST_CASE("a source from outside is known, computes its formula and is counted") {
  register_once();
  CHECK(value_source_names().back() == "previous_embedding");
  GPT model(small_gpt(ValueCombine::replace));
  ValueInputs inputs;
  inputs.x0 = torch::randn({2, 5, 24}, torch::kFloat64);
  inputs.hidden = torch::randn({2, 5, 24}, torch::kFloat64);
  auto& layer = *model->blocks[2]->as<BlockImpl>()->attention->value;
  const torch::Tensor values = layer.forward(inputs);
  CHECK(values.select(1, 0).count_nonzero().item<int64_t>() == 0);
  const torch::Tensor expected =
      torch::linear(inputs.x0.slice(1, 0, 4), layer.projection).view({2, 4, 2, 12});
  CHECK(testing::relative_error(values.slice(1, 1), expected) < 1e-14);
  CHECK(layer.cache_need() == ValueCacheNeed::own_values);
  int64_t parameters = 0;
  for (const auto& parameter : model->parameters()) parameters += parameter.numel();
  CHECK(count_parameters(model->options()).total() == parameters);
}

TEST_CASE("a GPT with a source from outside has right gradients and takes a training step") {
  register_once();
  const torch::Tensor ids = torch::tensor({{3, 1, 4, 1, 5, 9, 2}}, torch::kInt64);
  const torch::Tensor targets = ids.roll(-1, 1);
  for (const auto combine : {ValueCombine::replace, ValueCombine::add}) {
    INFO(to_string(combine));
    torch::manual_seed(5);
    GPT model(small_gpt(combine));
    {
      const torch::NoGradGuard no_grad;
      for (auto& parameter : model->parameters()) parameter.normal_(0, 0.3);
    }
    // Central differences in float64 are good to about 1e-9 of the gradient's scale.
    CHECK(testing::gradient_error([&](const auto&) { return model->loss(ids, targets); }, model->parameters(),
                                  {.max_entries = 12}) < 1e-6);

    TrainingOptimizer optimizer(model->named_parameters(), 24, OptimizerRates{},
                                {.steps = 10, .warmup_steps = 1}, torch::kFloat64);
    const auto loss_and_gradients = [&] {
      optimizer.zero_grad();
      const torch::Tensor loss = model->loss(ids, targets);
      loss.backward();
      return loss.item<double>();
    };
    const double before = loss_and_gradients();
    optimizer.step(0);
    CHECK(loss_and_gradients() < before);
  }
}

TEST_CASE("a name is registered once") {
  register_once();
  CHECK_THROWS_WITH(register_value_source(previous_embedding_source()),
                    Catch::Contains("'previous_embedding' is registered already"));
}

}  // namespace
}  // namespace bov
