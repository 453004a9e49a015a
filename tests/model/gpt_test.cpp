#include "bov/model/gpt.h"

#include <torch/autograd.h>
#include <torch/types.h>

#include "bov/attention/rotary_norm.h"
#include "bov/model/accounting.h"
#include "bov/model/rms_norm.h"
#include "bov/model/softcap_cross_entropy.h"
#include "bov/value/presets.h"
#include "support/catch.h"
#include "support/finite_difference.h"
#include "support/tensor_compare.h"

namespace bov {
namespace {

using testing::gradient_error;
using testing::relative_error;

TEST_CASE("rotary tables reach a million positions and the rotation keeps lengths") {
  const torch::Tensor positions = torch::tensor({0, 1, 20481, 1000000}, torch::kInt64);
  const RotaryTables tables = rotary_tables(positions, 8, 100000.0, torch::kFloat64);
  CHECK(tables.cos.sizes() == torch::IntArrayRef({4, 1, 4}));
  CHECK(tables.cos[3][0][1].item<double>() ==
        Approx(std::cos(1000000.0 * std::pow(100000.0, -2.0 / 8))).epsilon(1e-9));
  const torch::Tensor x = torch::randn({1, 4, 2, 8}, torch::kFloat64);
  const torch::Tensor y = apply_rotary(x, tables);
  CHECK(relative_error(y.norm(2, -1), x.norm(2, -1)) < 1e-14);
  CHECK(torch::equal(y.select(1, 0), x.select(1, 0)));
  // Position 1, first pair: y1 = x1·cos 1 + x2·sin 1.
  CHECK(y[0][1][0][0].item<double>() ==
        Approx(x[0][1][0][0].item<double>() * std::cos(1.0) + x[0][1][0][4].item<double>() * std::sin(1.0)));
  CHECK_THROWS_WITH(rotary_tables(positions, 7, 1e5, torch::kFloat32),
                    Catch::Contains("head_dim must be even, got 7"));
}

TEST_CASE("the norms in one pass equal their compositions, with gradients") {
  torch::manual_seed(8);
  for (const int64_t width : {2, 6, 16, 34, 96}) {
    const auto f64 = torch::TensorOptions(torch::kFloat64);
    // Strided input: every second head of a wider tensor.
    const torch::Tensor leaf = torch::randn({2, 5, 6, width}, f64).requires_grad_();
    const torch::Tensor x = leaf.slice(2, 0, 6, 2);
    const torch::Tensor upstream = torch::randn({2, 5, 3, width}, f64);
    const RotaryTables tables = rotary_tables(torch::arange(5), width, 100.0, torch::kFloat64);
    const auto composed_norm = [](const torch::Tensor& x) {
      return x * torch::rsqrt(x.square().mean(-1, true) + kRmsNormEpsilon);
    };
    const auto check = [&](const torch::Tensor& fused, const torch::Tensor& composed) {
      // Sums of at most 96 terms in another order.
      CHECK(relative_error(fused, composed) < 1e-14);
      CHECK(relative_error(torch::autograd::grad({(fused * upstream).sum()}, {leaf})[0],
                           torch::autograd::grad({(composed * upstream).sum()}, {leaf})[0]) < 1e-13);
    };
    INFO("width " << width);
    check(rms_norm(x), composed_norm(x));
    check(rotary_rms_norm(x, tables, 1.2), composed_norm(apply_rotary(x, tables)) * 1.2);
  }
  CHECK(rms_norm(torch::zeros({0, 4})).numel() == 0);
  CHECK_THROWS_WITH(rotary_rms_norm(torch::zeros({1, 3, 2, 4}),
                                    rotary_tables(torch::arange(2), 4, 10.0, torch::kFloat32), 1),
                    Catch::Contains("[1, 3, 2, 4] and [2, 1, 2]"));
  CHECK_THROWS_WITH(
      apply_rotary(torch::zeros({1, 3, 2, 6}), rotary_tables(torch::arange(3), 4, 10.0, torch::kFloat32)),
      Catch::Contains("apply_rotary: x must be [B, T, H, D]") &&
          Catch::Contains("[1, 3, 2, 6] and [3, 1, 2]"));
  CHECK_THROWS_WITH(rms_norm(torch::zeros({2, 3}, torch::kInt64)), Catch::Contains("Long [2, 3]"));
  CHECK_THROWS_WITH(rms_norm(torch::tensor(1.0)), Catch::Contains("floating [.., C]"));
}

GPTOptions tiny() {
  GPTOptions options;
  options.sequence_length = 160;
  options.vocab_size = 50;
  options.n_layer = 6;
  options.n_head = 4;
  options.n_kv_head = 2;
  options.n_embd = 32;
  return options;
}

TEST_CASE("at the start every variant's loss is that of the uniform guess") {
  const torch::Tensor ids = torch::randint(0, 50, {2, 160}, torch::kInt64);
  for (const ValuePreset& preset : value_presets()) {
    GPTOptions options = tiny();
    options.value = preset.spec;
    GPT model(options);
    const double loss = model->loss(ids, ids.roll(-1, 1)).item<double>();
    INFO(preset.name);
    // The head has deviation 0.001, so logits are about 0.006 wide.
    CHECK(loss == Approx(std::log(50.0)).margin(1e-3));
  }
}

TEST_CASE("token losses are the cross-entropy of the logits, and -1 is ignored") {
  torch::manual_seed(9);
  GPT model(tiny());
  torch::NoGradGuard no_grad;
  for (auto& parameter : model->parameters()) parameter.normal_(0, 0.2);
  const torch::Tensor ids = torch::randint(0, 50, {2, 37}, torch::kInt64);
  torch::Tensor targets = ids.roll(-1, 1).clone();
  targets[1][5] = -1;
  const torch::Tensor logits = model->forward(ids);
  CHECK(logits.abs().max().item<double>() < 15.0);
  torch::Tensor expected = -torch::log_softmax(logits.to(torch::kFloat64), -1)
                                .gather(-1, targets.clamp_min(0).unsqueeze(-1))
                                .squeeze(-1);
  expected[1][5] = 0;
  // float32 rounding of a sum of 50 exponentials.
  CHECK(relative_error(model->token_losses(ids, targets), expected) < 1e-6);
  CHECK(model->loss(ids, targets).item<double>() == Approx(expected.sum().item<double>() / 73).epsilon(1e-6));
  CHECK_THROWS_WITH(model->token_losses(ids, ids[0]), Catch::Contains("shape of token_ids"));
  CHECK_THROWS_WITH(model->forward(ids[0]), Catch::Contains("[B, T]"));
  CHECK_THROWS_WITH(model->forward(ids.to(torch::kInt32)), Catch::Contains("int64 [B, T], got Int [2, 37]"));
  CHECK_THROWS_WITH(model->forward(ids - 50),
                    Catch::Contains("GPT: token id -") && Catch::Contains("is outside the vocabulary of 50"));
  CHECK_THROWS_WITH(model->loss(ids + 50, ids), Catch::Contains("outside the vocabulary of 50"));
  CHECK_THROWS_WITH(model->loss(ids, ids + 50), Catch::Contains("is neither -1 nor in [0, 50)"));
  CHECK_THROWS_WITH(model->token_losses(ids, ids - 52), Catch::Contains("is neither -1 nor in [0, 50)"));
  CHECK(model->forward(torch::empty({2, 0}, torch::kInt64)).sizes() == torch::IntArrayRef({2, 0, 50}));
}

TEST_CASE("smear refuses shapes that would broadcast") {
  Smear smear(8, torch::kFloat32);
  CHECK_THROWS_WITH(smear->forward(torch::zeros({2, 3, 7})), Catch::Contains("[B, T, 8], got [2, 3, 7]"));
  CHECK_THROWS_WITH(smear->forward(torch::zeros({2, 3, 8}), torch::zeros({1, 1, 8})),
                    Catch::Contains("[2, 1, 8], got [1, 1, 8]"));
}

TEST_CASE("the chunked loss has the gradients of the composed one") {
  torch::manual_seed(12);
  const auto f64 = torch::TensorOptions(torch::kFloat64);
  for (const double cap : {0.0, 2.0}) {
    // More rows than one chunk holds, the last chunk short.
    const torch::Tensor hidden = torch::randn({70, 5}, f64).requires_grad_();
    const torch::Tensor head = torch::randn({9000, 5}, f64).requires_grad_();
    torch::Tensor targets = torch::randint(0, 9000, {70}, torch::kInt64);
    targets[3] = -1;
    const torch::Tensor composed =
        torch::nll_loss_nd(torch::log_softmax(softcap(torch::linear(hidden, head), cap), -1), targets, {},
                           at::Reduction::Mean, -1);
    const auto expected = torch::autograd::grad({composed * 3}, {hidden, head});
    const torch::Tensor chunked = mean_softcap_cross_entropy(hidden, head, targets, cap);
    const auto actual = torch::autograd::grad({chunked * 3}, {hidden, head});
    CHECK(relative_error(chunked, composed) < 1e-14);
    CHECK(relative_error(actual[0], expected[0]) < 1e-13);
    CHECK(relative_error(actual[1], expected[1]) < 1e-13);
  }
  const torch::Tensor none = torch::full({2}, -1, torch::kInt64);
  CHECK_THROWS_WITH(mean_softcap_cross_entropy(torch::zeros({2, 5}), torch::zeros({3, 5}), none, 0),
                    Catch::Contains("all 2 targets are -1"));
  CHECK_THROWS_WITH(softcap_cross_entropy(torch::zeros({2, 5}), torch::zeros({3, 4}), none, 0),
                    Catch::Contains("[2, 5], [3, 4] and [2]"));
}

TEST_CASE("no logit depends on a later token") {
  torch::manual_seed(10);
  for (const bool smear : {false, true}) {
    GPTOptions options = tiny();
    options.smear = smear;
    options.value = value_preset("bov");
    GPT model(options);
    torch::NoGradGuard no_grad;
    for (auto& parameter : model->parameters()) parameter.normal_(0, 0.2);
    const torch::Tensor ids = torch::randint(0, 50, {1, 160}, torch::kInt64);
    torch::Tensor changed = ids.clone();
    changed[0][150] = (changed[0][150] + 1) % 50;
    const torch::Tensor a = model->forward(ids), b = model->forward(changed);
    CHECK(relative_error(a.slice(1, 0, 150), b.slice(1, 0, 150)) < 1e-6);
    CHECK(relative_error(a.slice(1, 150), b.slice(1, 150)) > 1e-3);
  }
}

TEST_CASE("bfloat16 compute with bfloat16 tables stays close to float32") {
  torch::manual_seed(11);
  GPTOptions options = tiny();
  options.value = value_preset("bov");
  GPT precise(options);
  options.compute_dtype = options.table_dtype = torch::kBFloat16;
  GPT rounded(options);
  torch::NoGradGuard no_grad;
  const auto sources = precise->named_parameters();
  for (auto& parameter : rounded->named_parameters()) {
    sources[parameter.key()].normal_(0, 0.2);
    parameter.value().copy_(sources[parameter.key()]);
  }
  CHECK(rounded->embedding.scalar_type() == torch::kBFloat16);
  CHECK(rounded->head.scalar_type() == torch::kFloat32);
  const torch::Tensor ids = torch::randint(0, 50, {1, 100}, torch::kInt64);
  const torch::Tensor logits = rounded->forward(ids);
  CHECK(logits.scalar_type() == torch::kFloat32);
  // 6 layers of about 4 roundings to 2^-8 each add up like a random walk: sqrt(24)·2^-9 = 1 %; three times that.
  CHECK(relative_error(logits, precise->forward(ids)) < 0.03);
}

TEST_CASE("the counts of parameters agree with the modules") {
  for (const ValuePreset& preset : value_presets()) {
    GPTOptions options = tiny();
    options.value = preset.spec;
    int64_t total = 0;
    for (const auto& parameter : GPT(options)->parameters()) total += parameter.numel();
    INFO(preset.name);
    CHECK(count_parameters(options).total() == total);
  }
}

}  // namespace
}  // namespace bov
