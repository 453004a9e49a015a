#include "bov/model/bank_conversion.h"

#include "bov/io/module_state.h"
#include "decode/tiny_model.h"
#include "support/catch.h"
#include "support/temporary_folder.h"
#include "support/tensor_compare.h"

namespace bov {
namespace {

using Catch::Contains;
using testing::bitwise_equal;
using testing::random_ids;
using testing::random_model;
using testing::relative_error;
using testing::tiny_options;
using testing::unit_roundoff;

GPTOptions foldable_options(torch::Dtype dtype) {
  GPTOptions options = tiny_options(dtype);
  options.smear = false;
  options.value.source = "embedding";
  options.value.layers = TargetRule::every_other;
  return options;
}

/// The model as a checkpoint gives it back: written in pieces, read by name.
GPT written_and_read(const BankModel& parts) {
  const testing::TemporaryFolder folder;
  save_safetensors(folder / "model", parts.parameters, {}, parts.tables);
  GPT model(parts.options);
  load_parameters(*model, load_safetensors(folder / "model"));
  return model;
}

TEST_CASE("a folded model computes what it was folded from") {
  const torch::Tensor ids = random_ids(2, 130);
  for (const auto& [source, dtype] :
       std::vector<std::pair<std::string, torch::Dtype>>{{"embedding", torch::kFloat32},
                                                         {"embedding", torch::kFloat64},
                                                         {"embedding", torch::kBFloat16},
                                                         {"first_layer", torch::kFloat32},
                                                         {"first_layer", torch::kFloat64}}) {
    for (const auto combine : {ValueCombine::replace, ValueCombine::add}) {
      for (const auto& coefficient : {ValueCoefficient::fixed(0.5), ValueCoefficient::learned(),
                                      ValueCoefficient::learned_per_head(), ValueCoefficient::gated()}) {
        for (const TargetLayers& layers :
             {TargetLayers(TargetRule::every), TargetLayers(std::vector<int64_t>{4, 1})}) {
          INFO(source << " " << to_string(combine) << " " << to_string(coefficient) << " "
                      << to_string(layers) << " " << dtype);
          GPTOptions options = foldable_options(dtype);
          options.value.source = source;
          options.value.combine = combine;
          options.value.coefficient = coefficient;
          options.value.layers = layers;
          GPT model = random_model(options);
          GPT folded = written_and_read(fold_into_banks(model));
          CHECK(folded->options().value.source == "bank");
          CHECK(folded->target_layers() == model->target_layers());
          const torch::NoGradGuard no_grad;
          // Sums in another order: about one rounding an operation, which grows through six layers. In float64 the bound
          // is 1e-13, far below any difference of the function.
          CHECK(relative_error(folded->forward(ids), model->forward(ids)) < 1000 * unit_roundoff(dtype));
        }
      }
    }
  }
}

TEST_CASE("a row of a folded table is the value vector that the layer makes of the token") {
  const GPTOptions options = foldable_options(torch::kFloat64);
  GPT model = random_model(options);
  const BankModel folded = fold_into_banks(model);
  const torch::NoGradGuard no_grad;
  for (const int64_t layer : model->target_layers()) {
    const std::string name = "blocks." + std::to_string(layer) + ".attention.value.";
    CHECK(folded.parameters.count(name + "projection") == 0);
    const TensorRows& table = folded.tables.at(name + "bank.table");
    CHECK(table.shape == std::vector<int64_t>{50, 16});
    const auto& projection = model->blocks[layer]->as<BlockImpl>()->attention->value->projection;
    for (const int64_t token : {0, 17, 49}) {
      torch::Tensor x = model->embedding[token];
      for (int norm = 0; norm < 2; ++norm) x = x / (x.square().mean() + 0x1p-23).sqrt();
      // Norms and products of 32 float64 numbers.
      CHECK(relative_error(table.rows(token, token + 1)[0], projection.matmul(x)) < 1e-14);
    }
  }
}

TEST_CASE("values of layer 0 become one table that all target layers share") {
  GPTOptions options = foldable_options(torch::kFloat32);
  options.value.source = "first_layer";
  options.value.layers = TargetRule::every;
  const BankModel folded = fold_into_banks(random_model(options));
  CHECK(folded.options.value.shared);
  CHECK(to_string(folded.options.value.layers) == "[1, 2, 3, 4, 5]");
  CHECK(folded.tables.size() == 1);
  CHECK(folded.tables.count("shared_bank.table") == 1);
  CHECK(folded.parameters.count("blocks.0.attention.value.projection") == 1);
}

TEST_CASE("gamma is kept, and what is added to V keeps W_V") {
  GPTOptions options = foldable_options(torch::kFloat32);
  options.value.coefficient = ValueCoefficient::learned();
  GPT model = random_model(options);
  const BankModel replaced = fold_into_banks(model);
  CHECK(bitwise_equal(replaced.parameters.at("blocks.1.attention.value.gamma"),
                      module_state(*model).at("blocks.1.attention.value.gamma")));
  options.value.combine = ValueCombine::add;
  GPT added = random_model(options);
  CHECK(fold_into_banks(added).parameters.count("blocks.1.attention.value.projection") == 1);
}

TEST_CASE("a model whose fold would not be exact is refused with the reason") {
  GPTOptions options = foldable_options(torch::kFloat32);
  options.smear = true;
  CHECK_THROWS_WITH(fold_into_banks(GPT(options)), Contains("smear is on") &&
                                                       Contains("no function of one token") &&
                                                       Contains("smear: false"));
  options = foldable_options(torch::kFloat32);
  options.table_dtype = torch::kBFloat16;
  CHECK_THROWS_WITH(fold_into_banks(GPT(options)),
                    Contains("table_dtype BFloat16 is narrower than compute_dtype Float"));
  for (const char* source : {"stream", "bank"}) {
    options = foldable_options(torch::kFloat32);
    options.value.source = source;
    CHECK_THROWS_WITH(fold_into_banks(GPT(options)),
                      Contains("the value source is '" + std::string(source) + "'") &&
                          Contains("'embedding' or 'first_layer'"));
  }
}

/// Values that each layer makes of ids [B, T], [B·T, Hkv·D] by layer, taken from the layers themselves.
std::vector<torch::Tensor> values_of_layers(GPT& model, const torch::Tensor& ids) {
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> values;
  const auto positions = torch::arange(ids.size(1), torch::kInt64);
  const auto& options = model->options();
  const auto rotary =
      rotary_tables(positions, options.head_dim(), options.rotary_base, options.compute_dtype);
  torch::Tensor x = model->embed(ids);
  if (!model->smear.is_empty()) x = model->smear->forward(x);
  model->run_blocks(x, {}, [&](int64_t, CausalSelfAttentionImpl& attention, ValueInputs& inputs) {
    const torch::Tensor own = attention.values(inputs);
    values.push_back(own.flatten(0, 1).flatten(1));
    return attention.attend(inputs.hidden, own, rotary);
  });
  return values;
}

TEST_CASE("means of values over batches are the means over all counted positions of an id") {
  for (const auto dtype : {torch::kFloat32, torch::kFloat64}) {
    GPT model = random_model(tiny_options(dtype));
    ValueMeans means(model, std::vector<int64_t>{5, 2});
    const torch::Tensor first = random_ids(3, 20).clamp_max(40), second = random_ids(2, 7).clamp_max(40);
    means.add(first);
    means.add(torch::empty({0, 5}, torch::kInt64));
    means.add(first, torch::zeros_like(first, torch::kBool));
    // All but 0, 3, 6, 9 and 12.
    const torch::Tensor counted = torch::arange(14).view({2, 7}).remainder(3) > 0;
    means.add(second, counted);
    CHECK(means.tokens() == 3 * 20 + 9);
    const torch::Tensor ids = torch::cat({first.flatten(), second.masked_select(counted)});
    CHECK(means.rows_seen() == std::get<0>(at::_unique(ids)).numel());
    const BankModel result = means.bank_model();
    CHECK(result.options.value.source == "bank");
    CHECK(result.parameters.count("blocks.2.attention.value.projection") == 0);
    CHECK(result.parameters.count("blocks.1.attention.value.projection") == 1);
    const auto of_first = values_of_layers(model, first), of_second = values_of_layers(model, second);
    for (const size_t layer : {2, 5}) {
      const std::string name = "blocks." + std::to_string(layer) + ".attention.value.";
      CHECK(bitwise_equal(result.parameters.at(name + "gamma"), torch::ones({1}, dtype)));
      const torch::Tensor of_counted = of_second[layer].index({counted.flatten()});
      const torch::Tensor values = torch::cat({of_first[layer], of_counted}).to(torch::kFloat64);
      torch::Tensor expected = torch::empty({50, 16}, torch::kFloat64);
      for (int64_t id = 0; id < 50; ++id) {
        torch::Tensor sum = torch::zeros({16}, torch::kFloat64);
        int64_t count = 0;
        for (int64_t i = 0; i < ids.numel(); ++i) {
          if (ids[i].item<int64_t>() != id) continue;
          sum += values[i];
          ++count;
        }
        expected[id] = count > 0 ? sum / count : values.mean(0);
      }
      // A few roundings of the running mean.
      const torch::Tensor table = result.tables.at(name + "bank.table").rows(0, 50);
      CHECK(relative_error(table, expected) < 16 * unit_roundoff(dtype));
    }
  }
}

TEST_CASE("tables of means stand for the values exactly where a token has one context only") {
  GPT model = random_model(tiny_options(torch::kFloat64));
  ValueMeans means(model, TargetRule::last_third);
  const torch::Tensor every_token = torch::arange(50, torch::kInt64).unsqueeze(1);
  means.add(every_token);
  means.add(every_token);
  GPT calibrated = written_and_read(means.bank_model());
  const torch::NoGradGuard no_grad;
  // As for the exact fold.
  CHECK(relative_error(calibrated->forward(every_token), model->forward(every_token)) < 1e-13);
}

TEST_CASE("means are refused of a model that is not standard, and of no text") {
  GPTOptions options = tiny_options(torch::kFloat32);
  options.value.source = "embedding";
  CHECK_THROWS_WITH(ValueMeans(GPT(options), TargetRule::every),
                    Contains("'embedding'") && Contains("source 'stream'"));
  options.value = {.coefficient = ValueCoefficient::learned()};
  CHECK_THROWS_WITH(ValueMeans(GPT(options), TargetRule::every), Contains("learned·'stream'"));
  GPT standard(tiny_options(torch::kFloat32));
  CHECK_THROWS_WITH(ValueMeans(standard, std::vector<int64_t>{6}), Contains("6 is no layer"));
  ValueMeans means(standard, TargetRule::every);
  CHECK_THROWS_WITH(means.bank_model(), Contains("no token was added"));
  const torch::Tensor ids = random_ids(2, 3);
  CHECK_THROWS_WITH(means.add(ids, torch::ones({2, 4}, torch::kBool)),
                    Contains("counted is Bool [2, 4]; expected Bool [2, 3]"));
  CHECK_THROWS_WITH(means.add(ids, ids), Contains("counted is Long [2, 3]"));
}

}  // namespace
}  // namespace bov
