#include <torch/serialize.h>

#include <cmath>
#include <sstream>

#include "bov/optim/adamw.h"
#include "bov/optim/muon.h"
#include "optim/reference_optimizers.h"
#include "support/catch.h"
#include "support/tensor_compare.h"

using namespace bov;
using namespace bov::testing;

namespace {

AdamWOptions table_options() {
  return AdamWOptions(0.3).betas({0.8, 0.995}).eps(1e-10).weight_decay(0.001);
}

/// Exact results {p, m, s} of the coming step of each element of `p`, from the values stored now.
std::vector<ScalarAdamW> expected_step(AdamW& optimizer, const at::Tensor& p, const AdamWOptions& options) {
  const auto& state = optimizer.state_of(p);
  const auto flat = [](const at::Tensor& t) { return t.detach().to(torch::kDouble).flatten(); };
  const auto before = flat(p), m = flat(state.exp_avg()), s = flat(state.exp_avg_sq()), g = flat(p.grad());
  std::vector<ScalarAdamW> rows;
  for (int64_t i = 0; i < p.numel(); ++i) {
    rows.push_back({before[i].item<double>(), m[i].item<double>(), s[i].item<double>()});
    rows.back().step(g[i].item<double>(), state.step() + 1, options);
  }
  return rows;
}

const std::vector<std::vector<int64_t>> kShapes = {{9, 9},  {12, 5}, {5, 12}, {9, 9},
                                                   {2, 12}, {12, 5}, {1, 1},  {9, 9}};

}  // namespace

TEST_CASE("AdamW equals the element-wise recipe in float64 and float32") {
  torch::manual_seed(1);
  const auto options = table_options();
  for (const auto dtype : {torch::kDouble, torch::kFloat}) {
    const auto p = parameter({7, 13}, dtype);
    AdamW optimizer({p}, options);
    for (int64_t t = 0; t < 9; ++t) {
      set_gradient(p, 1e-3);
      const auto rows = expected_step(optimizer, p, options);
      optimizer.step();
      const auto& state = optimizer.state_of(p);
      // About ten roundings a step, none amplified: |p| < 4, and an update is at most a few times lr = 0.3.
      const double bound = 16 * 4 * unit_roundoff(dtype);
      const auto p_flat = p.detach().flatten(), m = state.exp_avg().flatten(),
                 s = state.exp_avg_sq().flatten();
      for (int64_t i = 0; i < p.numel(); ++i) {
        REQUIRE(std::abs(p_flat[i].item<double>() - rows[i].p) < bound);
        REQUIRE(std::abs(m[i].item<double>() - rows[i].m) < bound * 1e-3);
        REQUIRE(std::abs(s[i].item<double>() - rows[i].s) < bound * 1e-6);
      }
    }
    CHECK(optimizer.state_of(p).step() == 9);
  }
}

TEST_CASE("AdamW rounds a bfloat16 parameter and its moments once") {
  torch::manual_seed(2);
  const auto options = table_options();
  const auto p = parameter({5, 67}, torch::kBFloat16);  // 335 elements: whole vectors and a tail
  AdamW optimizer({p}, options);
  // The stored value must be the bfloat16 nearest to the exact one. float32 arithmetic may only decide
  // otherwise within 2^-20 of a tie between two bfloat16 values, so the values on both sides of that band are
  // allowed.
  const auto is_rounded_once = [](const at::Tensor& stored, double exact, double scale) {
    const auto round = [](double x) {
      return static_cast<double>(static_cast<float>(c10::BFloat16(static_cast<float>(x))));
    };
    const double value = stored.item<double>(), slack = std::ldexp(scale, -20);
    return value >= round(exact - slack) && value <= round(exact + slack);
  };
  int64_t different_from_twice_rounded = 0;
  for (int64_t t = 1; t <= 9; ++t) {
    set_gradient(p, 1e-3);
    const auto rows = expected_step(optimizer, p, options);
    optimizer.step();
    const auto& state = optimizer.state_of(p);
    REQUIRE(state.exp_avg().scalar_type() == torch::kBFloat16);
    const auto p_flat = p.detach().flatten(), m = state.exp_avg().flatten(), s = state.exp_avg_sq().flatten();
    for (int64_t i = 0; i < p.numel(); ++i) {
      REQUIRE(is_rounded_once(p_flat[i], rows[i].p, 4.0));
      REQUIRE(is_rounded_once(m[i], rows[i].m, 4e-3));
      REQUIRE(is_rounded_once(s[i], rows[i].s, rows[i].s));
      const double from_stored_moments = 0.3 / (1 - std::pow(0.8, t)) * m[i].item<double>() /
                                         std::sqrt(s[i].item<double>() / (1 - std::pow(0.995, t)));
      const double from_exact_moments =
          0.3 / (1 - std::pow(0.8, t)) * rows[i].m / std::sqrt(rows[i].s / (1 - std::pow(0.995, t)));
      different_from_twice_rounded += std::abs(from_stored_moments - from_exact_moments) > 1e-4;
    }
  }
  // The test can tell: updates from moments that were rounded first are often visibly different.
  CHECK(different_from_twice_rounded > 100);
}

TEST_CASE("AdamW skips parameters without a gradient and counts steps for each") {
  torch::manual_seed(3);
  const auto first = parameter({3}), second = parameter({3});
  AdamW optimizer({first, second}, table_options());
  const auto before = second.detach().clone();
  set_gradient(first);
  optimizer.step();
  CHECK(bitwise_equal(second, before));
  set_gradient(second);
  const auto rows = expected_step(optimizer, second, table_options());
  optimizer.step();
  CHECK(optimizer.state_of(first).step() == 2);
  CHECK(optimizer.state_of(second).step() == 1);
  CHECK(second[1].item<double>() == Approx(rows[1].p).epsilon(1e-12));
}

TEST_CASE("AdamW reads a transposed gradient by its indices") {
  torch::manual_seed(4);
  const auto p = parameter({4, 4}), twin = p.detach().clone().set_requires_grad(true);
  set_gradient(p);
  twin.mutable_grad() = p.grad().t().contiguous().t();
  REQUIRE_FALSE(twin.grad().is_contiguous());
  AdamW({p}, table_options()).step();
  AdamW({twin}, table_options()).step();
  CHECK(bitwise_equal(p, twin));
}

TEST_CASE("Muon equals a per-matrix float64 reference for square, tall and wide matrices") {
  torch::manual_seed(5);
  const auto options = MuonOptions(0.03).momentum(0.87).weight_decay(0.25);
  std::vector<at::Tensor> matrices;
  std::vector<ReferenceMuon> references;
  for (const auto& shape : kShapes) {
    matrices.push_back(parameter(shape));
    references.emplace_back(matrices.back());
  }
  Muon optimizer(matrices, options);
  for (int step = 0; step < 4; ++step) {
    for (size_t i = 0; i < matrices.size(); ++i) {
      set_gradient(matrices[i]);
      references[i].step(matrices[i].grad(), options);
    }
    optimizer.step();
  }
  for (size_t i = 0; i < matrices.size(); ++i) {
    CAPTURE(i, kShapes[i]);
    // The polynomials amplify rounding of small singular values by at most 8.2·4.1·3.9·3.3·2.4 < 1100.
    CHECK(relative_error(matrices[i], references[i].p) < 1e-11);
    CHECK(relative_error(optimizer.state_of(matrices[i]).momentum_buffer(), references[i].buffer) < 1e-14);
    CHECK(relative_error(optimizer.state_of(matrices[i]).second_moment().flatten(), references[i].variance) <
          1e-10);
  }
}

TEST_CASE("Muon treats stacked matrices as it treats each alone") {
  torch::manual_seed(6);
  const auto options = MuonOptions(0.02).weight_decay(0.1);
  std::vector<at::Tensor> together, alone;
  for (const auto& shape : kShapes) {
    together.push_back(parameter(shape));
    alone.push_back(together.back().detach().clone().set_requires_grad(true));
  }
  Muon optimizer(together, options);
  std::vector<Muon> optimizers;
  for (const auto& matrix : alone) optimizers.emplace_back(std::vector<at::Tensor>{matrix}, options);
  for (int step = 0; step < 3; ++step) {
    for (size_t i = 0; i < alone.size(); ++i) {
      set_gradient(together[i]);
      alone[i].mutable_grad() = together[i].grad().clone();
      if (i == 3 && step == 1) {  // one matrix of a shape without a gradient must not shift its neighbours
        together[i].mutable_grad().reset();
        alone[i].mutable_grad().reset();
      }
      optimizers[i].step();
    }
    optimizer.step();
  }
  for (size_t i = 0; i < alone.size(); ++i) CHECK(relative_error(together[i], alone[i]) < 1e-12);
}

TEST_CASE("Muon decays only where the update and the parameter have one sign") {
  const auto options = MuonOptions(0.1).momentum(0.0).weight_decay(0.5);
  const auto with_decay = torch::tensor({{2.0, 0.0}, {0.0, -3.0}}, torch::kDouble).set_requires_grad(true);
  const auto without = with_decay.detach().clone().set_requires_grad(true);
  // The gradient is diagonal, so the update is too: equal in sign to the first entry, opposite to the second.
  with_decay.mutable_grad() = torch::eye(2, torch::kDouble);
  without.mutable_grad() = torch::eye(2, torch::kDouble);
  Muon({with_decay}, options).step();
  Muon({without}, MuonOptions(options).weight_decay(0.0)).step();
  const auto decay = (without - with_decay).detach();
  CHECK(decay[0][0].item<double>() == Approx(0.1 * 0.5 * 2.0).epsilon(1e-12));
  CHECK(decay[1][1].item<double>() == 0.0);
}

TEST_CASE("Muon leaves a matrix with a zero gradient finite and in place") {
  torch::manual_seed(7);
  const auto p = parameter({6, 4}, torch::kFloat);
  const auto before = p.detach().clone();
  p.mutable_grad() = torch::zeros_like(p);
  Muon({p}, MuonOptions(0.02)).step();
  CHECK(bitwise_equal(p, before));
}

TEST_CASE("Muon in float32 and bfloat16 stays near float64") {
  torch::manual_seed(8);
  const auto exact = parameter({48, 16});
  set_gradient(exact);
  const auto start = exact.detach().to(torch::kFloat).to(torch::kDouble);
  exact.data().copy_(start);
  Muon({exact}, MuonOptions(0.02)).step();
  const auto update_error = [&](torch::Dtype polar) {
    const auto p = start.to(torch::kFloat).set_requires_grad(true);
    p.mutable_grad() = exact.grad().to(torch::kFloat);
    Muon({p}, MuonOptions(0.02).polar_dtype(polar)).step();
    return relative_error(p.detach().to(torch::kDouble) - start, exact.detach() - start);
  };
  // Rounding of each of 15 matmuls, amplified where singular values are small; the singular values of a
  // random 48×16 matrix lie within a factor 4. bfloat16 has unit roundoff 2^-8, float32 2^-24.
  CHECK(update_error(torch::kFloat) < 1e-5);
  CHECK(update_error(torch::kBFloat16) < 0.1);
  CHECK(update_error(torch::kBFloat16) > 1e-4);  // the option has an effect
}

TEST_CASE("polar_express moves every singular value near one") {
  torch::manual_seed(9);
  const auto x = polar_express(torch::randn({3, 10, 25}, torch::kDouble));
  const auto singular = std::get<1>(torch::linalg_svd(x, false));
  // The published coefficients leave singular values above 1e-3 of the norm in about [0.7, 1.3].
  CHECK(singular.min().item<double>() > 0.7);
  CHECK(singular.max().item<double>() < 1.3);
  CHECK_THROWS_WITH(polar_express(torch::ones({3, 3})),
                    Catch::Contains("polar_express: expected floating [K, rows"));
}

TEST_CASE("Both optimizers run a closure, take groups with own options and survive torch::save") {
  torch::manual_seed(10);
  const auto a = parameter({4, 4}), b = parameter({4, 4});
  const auto x = torch::randn({4, 4}, torch::kDouble);
  const auto check = [&](auto& optimizer, auto& restored) {
    const auto loss_of = [&] {
      optimizer.zero_grad();
      auto loss = (a.mm(x) - b).square().sum();
      loss.backward();
      return loss;
    };
    const double first = optimizer.step(loss_of).template item<double>();
    double last = first;
    for (int i = 0; i < 5; ++i) last = optimizer.step(loss_of).template item<double>();
    CHECK(last < first);
    std::stringstream stream;
    torch::save(optimizer, stream);
    torch::load(restored, stream);
    const auto before = a.detach().clone(), gradient = a.grad().clone();
    optimizer.step();
    const auto after = a.detach().clone();
    a.data().copy_(before);
    restored.step();
    CHECK(bitwise_equal(a, after));
  };
  const auto groups = [&](auto options) {
    using Options = decltype(options);
    std::vector<torch::optim::OptimizerParamGroup> result;
    result.emplace_back(std::vector<at::Tensor>{a}, std::make_unique<Options>(options));
    result.emplace_back(std::vector<at::Tensor>{b});
    return result;
  };
  // The second group has the default rate 0: its parameter must not move.
  const auto b_start = b.detach().clone();
  AdamW adamw(groups(AdamWOptions(0.05)), AdamWOptions(0.0)), adamw_restored(groups(AdamWOptions(9.0)));
  check(adamw, adamw_restored);
  CHECK(bitwise_equal(b, b_start));
  Muon muon(groups(MuonOptions(0.05).polar_dtype(torch::kFloat)), MuonOptions(0.0)),
      muon_restored(groups(MuonOptions(9.0)));
  check(muon, muon_restored);
  CHECK(bitwise_equal(b, b_start));
}

TEST_CASE("Optimizers refuse impossible options and parameters") {
  const auto vector = parameter({3});
  CHECK_THROWS_WITH(
      Muon({vector}),
      Catch::Contains("Muon: a parameter must be a float32 or float64 matrix") && Catch::Contains("[3]"));
  CHECK_THROWS_WITH(Muon({parameter({3, 3}, torch::kBFloat16)}), Catch::Contains("CPUBFloat16Type"));
  CHECK_THROWS_WITH(Muon({parameter({3, 3})}, MuonOptions(-1.0)),
                    Catch::Contains("Muon: lr must be at least 0, got -1"));
  CHECK_THROWS_WITH(Muon({parameter({3, 3})}, MuonOptions().momentum(1.0)),
                    Catch::Contains("momentum must be in [0, 1)"));
  CHECK_THROWS_WITH(AdamW({vector}, AdamWOptions().betas({0.9, 1.5})),
                    Catch::Contains("beta2 must be in [0, 1), got 1.5"));
  CHECK_THROWS_WITH(AdamW({vector}, AdamWOptions(std::nan(""))),
                    Catch::Contains("AdamW: lr must be at least 0"));
  AdamW sparse({vector});
  vector.mutable_grad() = torch::ones({3}, torch::kDouble).to_sparse();
  CHECK_THROWS_WITH(sparse.step(), Catch::Contains("AdamW: gradients must be dense"));
}
