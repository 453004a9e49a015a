#include "csrc/value_gather.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/autograd.h>

#include <vector>

#include "csrc/reference/value_gather_reference.h"
#include "support/catch.h"
#include "support/finite_difference.h"
#include "support/tensor_compare.h"

namespace {

using bov::ops::token_index;
using bov::ops::value_gather;
using bov::ops::value_gather_layers;
using bov::testing::bitwise_equal;
using bov::testing::gradient_error;
using bov::testing::relative_error;
using bov::testing::unit_roundoff;
using Catch::Matchers::Contains;
namespace reference = bov::ops::reference;

const std::vector<at::ScalarType> kDtypes = {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf};

at::Tensor random_table(int64_t rows, int64_t width, at::ScalarType dtype) {
  return at::randn({rows, width}, at::kDouble).to(dtype);
}

/// Ids as in text: every third one is the same frequent token, the others are spread over the table.
at::Tensor text_like_ids(at::IntArrayRef shape, int64_t rows) {
  at::Tensor ids = at::randint(rows, shape, at::kLong);
  return ids.masked_fill(at::rand(shape) < 0.33, rows / 2);
}

const auto gather = [](const auto&... arguments) { return value_gather(arguments...); };
const auto reference_gather = [](const auto&... arguments) { return reference::value_gather(arguments...); };

/// The two gradients of sum(result * weight), of any implementation.
template <typename Gather>
std::vector<at::Tensor> gradients(const Gather& gather,
                                  const at::Tensor& table,
                                  const at::Tensor& ids,
                                  const at::Tensor& scale,
                                  const at::Tensor& weight) {
  const at::Tensor table_leaf = table.detach().requires_grad_(true);
  const at::Tensor scale_leaf = scale.detach().requires_grad_(true);
  const at::Tensor out = gather(table_leaf, ids, scale_leaf, weight.scalar_type());
  return torch::autograd::grad({out}, {table_leaf, scale_leaf}, {weight});
}

}  // namespace

TEST_CASE("value_gather equals the reference bit for bit in every pair of dtypes") {
  at::manual_seed(1);
  for (const auto table_dtype : kDtypes) {
    for (const auto out_dtype : kDtypes) {
      for (const int64_t width : {1, 7, 16, 67}) {
        INFO(table_dtype << " -> " << out_dtype << ", width " << width);
        const at::Tensor table = random_table(11, width, table_dtype);
        const at::Tensor ids = text_like_ids({3, 5}, 11);
        const at::Tensor scale = at::full({}, 1.37, at::kFloat);
        CHECK(bitwise_equal(value_gather(table, ids, scale, out_dtype),
                            reference::value_gather(table, ids, scale, out_dtype)));
        CHECK(bitwise_equal(value_gather(table, ids, std::nullopt, out_dtype),
                            reference::value_gather(table, ids, std::nullopt, out_dtype)));
      }
    }
  }
}

TEST_CASE("value_gather gives exact numbers that were worked out by hand") {
  const at::Tensor table = at::tensor({1.0, 2.0, 3.0, 4.0, 5.0, 6.0}, at::kFloat).view({3, 2});
  const at::Tensor ids = at::tensor({2, 0}, at::kLong);
  const at::Tensor scale = at::tensor({0.5}, at::kFloat);
  CHECK(
      at::equal(value_gather(table, ids, scale), at::tensor({2.5, 3.0, 0.5, 1.0}, at::kFloat).view({2, 2})));

  // 257 = 0x101 lies halfway between the bfloat16 neighbours 256 and 258: ties go to the even one. 259 goes
  // up.
  const at::Tensor halfway = at::tensor({257.0, 259.0, -257.0}, at::kFloat).view({1, 3});
  const at::Tensor rounded = value_gather(halfway, at::zeros({1}, at::kLong), std::nullopt, at::kBFloat16);
  CHECK(at::equal(rounded.to(at::kFloat), at::tensor({256.0, 260.0, -256.0}, at::kFloat).view({1, 3})));
}

TEST_CASE("value_gather keeps infinities, NaN and signed zeros") {
  const double inf = std::numeric_limits<double>::infinity();
  const at::Tensor special = at::tensor({inf, -inf, -0.0, 1e-42, 3.39e38}, at::kDouble).view({1, 5});
  const at::Tensor table = at::cat({special, at::full({1, 5}, std::nan(""), at::kDouble)});
  const at::Tensor ids = at::tensor({0, 1}, at::kLong);
  for (const auto dtype : kDtypes) {
    INFO(dtype);
    const at::Tensor out = value_gather(table.to(at::kFloat), ids, std::nullopt, dtype);
    CHECK(bitwise_equal(out[0], table.to(at::kFloat)[0].to(dtype)));
    CHECK(out[1].isnan().all().item<bool>());
  }
}

TEST_CASE("value_gather accepts int32 ids, any shape, strided tables and empty inputs") {
  at::manual_seed(2);
  const at::Tensor table = random_table(9, 6, at::kFloat);
  const at::Tensor ids = text_like_ids({2, 3, 4}, 9);
  const at::Tensor expected = table.index({ids});
  CHECK(at::equal(value_gather(table, ids), expected));
  CHECK(at::equal(value_gather(table, ids.to(at::kInt)), expected));
  CHECK(at::equal(value_gather(table, ids.transpose(0, 2)), expected.transpose(0, 2)));
  CHECK(at::equal(value_gather(table, ids[0][0][0]), expected[0][0][0]));

  const at::Tensor wide = random_table(9, 8, at::kFloat);
  CHECK(at::equal(value_gather(wide.slice(1, 1, 7), ids), wide.slice(1, 1, 7).index({ids})));
  CHECK(at::equal(value_gather(wide.t(), at::clamp_max(ids, 7)), wide.t().index({at::clamp_max(ids, 7)})));
  CHECK(value_gather(wide.t(), ids.flatten().slice(0, 0, 0)).sizes() == at::IntArrayRef({0, 9}));

  CHECK(value_gather(table, at::empty({0, 5}, at::kLong)).sizes() == at::IntArrayRef({0, 5, 6}));
  CHECK(value_gather(at::empty({0, 6}), at::empty({0}, at::kLong)).sizes() == at::IntArrayRef({0, 6}));
  CHECK(value_gather(at::empty({4, 0}), at::zeros({3}, at::kLong)).sizes() == at::IntArrayRef({3, 0}));
}

TEST_CASE("value_gather's gradients match float64 autograd of the reference in every pair of dtypes") {
  at::manual_seed(3);
  const int64_t rows = 23;
  const int64_t width = 21;
  const int64_t n = 700;  // the frequent token crosses several chunks of 32
  const at::Tensor ids = text_like_ids({n / 7, 7}, rows);
  for (const auto table_dtype : kDtypes) {
    for (const auto out_dtype : kDtypes) {
      INFO(table_dtype << " -> " << out_dtype);
      const at::Tensor table = random_table(rows, width, table_dtype);
      const at::Tensor scale = at::full({}, 1.25, at::kFloat);
      const at::Tensor weight = at::randn({n / 7, 7, width}, at::kDouble).to(out_dtype);
      const auto actual = gradients(gather, table, ids, scale, weight);
      const auto expected = gradients(reference_gather, table.to(at::kDouble), ids, scale.to(at::kDouble),
                                      weight.to(at::kDouble));
      CHECK(actual[0].scalar_type() == table_dtype);
      CHECK(actual[1].scalar_type() == at::kFloat);
      // A sum of up to 300 terms in the compute precision grows by about sqrt(300) rounding errors; then one
      // rounding.
      const bool in_double = table_dtype == at::kDouble || out_dtype == at::kDouble;
      const double sum_error = 20 * unit_roundoff(in_double ? at::kDouble : at::kFloat);
      CHECK(relative_error(actual[0], expected[0]) < sum_error + unit_roundoff(table_dtype));
      CHECK(relative_error(actual[1], expected[1]) < 200 * unit_roundoff(at::kFloat));
    }
  }
}

TEST_CASE("value_gather's gradients agree with finite differences in float64") {
  at::manual_seed(4);
  const at::Tensor table = at::randn({7, 5}, at::kDouble);
  const at::Tensor scale = at::randn({1}, at::kDouble);
  const at::Tensor ids = text_like_ids({3, 4}, 5);  // rows 5 and 6 are never used
  const auto loss = [&](const std::vector<at::Tensor>& in) {
    return value_gather(in[0], in[1], in.size() > 2 ? std::optional(in[2]) : std::nullopt)
        .tanh()
        .pow(2)
        .sum();
  };
  // Central differences are good to about 1e-10 of the function.
  CHECK(gradient_error(loss, {table, ids, scale}) < 1e-8);
  CHECK(gradient_error(loss, {table.detach(), ids}) < 1e-8);

  const at::Tensor fixed_table = table.detach();
  CHECK(gradient_error([&](const auto& in) { return value_gather(fixed_table, ids, in[0]).tanh().sum(); },
                       {scale.detach()}) < 1e-8);
}

TEST_CASE("value_gather's backward accepts strided and broadcast gradients and empty batches") {
  at::manual_seed(5);
  const at::Tensor table = random_table(6, 4, at::kFloat);
  const at::Tensor scale = at::full({1}, 0.75, at::kFloat);
  const at::Tensor ids = text_like_ids({8, 5}, 6);
  const at::Tensor plain = at::randn({8, 5, 4});
  const auto expected = gradients(gather, table, ids, scale, plain);
  for (const at::Tensor& weight :
       {plain.transpose(0, 1).contiguous().transpose(0, 1), at::cat({plain, plain}, 2).slice(2, 0, 4),
        plain.permute({2, 0, 1}).contiguous().permute({1, 2, 0})}) {
    const auto actual = gradients(gather, table, ids, scale, weight);
    CHECK(bitwise_equal(actual[0], expected[0]));
    CHECK(bitwise_equal(actual[1], expected[1]));
  }
  const auto ones = gradients(gather, table, ids, scale, at::ones({1}).expand({8, 5, 4}));
  CHECK(at::equal(ones[0].select(1, 0), 0.75 * at::bincount(ids.flatten(), {}, 6).to(at::kFloat)));

  const auto empty = gradients(gather, table, ids.slice(0, 0, 0), scale, plain.slice(0, 0, 0));
  CHECK(at::equal(empty[0], at::zeros_like(table)));
  CHECK(at::equal(empty[1], at::zeros_like(scale)));

  // A strided table: the gradient has its shape, and the scale's gradient reads the right entries.
  const at::Tensor wide = random_table(6, 9, at::kFloat);
  const auto sliced = gradients(gather, wide.slice(1, 2, 6), ids, scale, plain);
  const auto copied = gradients(gather, wide.slice(1, 2, 6).contiguous(), ids, scale, plain);
  CHECK(bitwise_equal(sliced[0], copied[0]));
  CHECK(bitwise_equal(sliced[1], copied[1]));
}

TEST_CASE("value_gather's gradients do not depend on the number of threads") {
  at::manual_seed(6);
  const int threads = at::get_num_threads();
  const at::Tensor table = random_table(300, 129, at::kFloat);
  const at::Tensor scale = at::full({}, 1.1, at::kFloat);
  const at::Tensor ids = text_like_ids({4001}, 300);
  const at::Tensor weight = at::randn({4001, 129});
  at::set_num_threads(1);
  const at::Tensor forward = value_gather(table, ids, scale);
  const auto expected = gradients(gather, table, ids, scale, weight);
  for (const int count : {2, 3, 7}) {
    at::set_num_threads(count);
    CHECK(bitwise_equal(value_gather(table, ids, scale), forward));
    const auto actual = gradients(gather, table, ids, scale, weight);
    CHECK(bitwise_equal(actual[0], expected[0]));
    CHECK(bitwise_equal(actual[1], expected[1]));
  }
  at::set_num_threads(threads);
}

TEST_CASE("value_gather computes only the gradients that are asked for, and none of second order") {
  const at::Tensor table = at::randn({4, 3}, at::kDouble).requires_grad_(true);
  const at::Tensor scale = at::ones({}, at::kDouble).requires_grad_(true);
  const at::Tensor ids = at::tensor({1, 1, 3}, at::kLong);
  const at::Tensor out = value_gather(table, ids, scale).pow(2).sum();
  CHECK(torch::autograd::grad({out}, {scale}, {}, /*retain_graph=*/true)[0].dim() == 0);
  const auto first = torch::autograd::grad({out}, {table}, {}, /*retain_graph=*/true, /*create_graph=*/true);
  CHECK_THROWS_WITH(torch::autograd::grad({first[0].sum()}, {table}),
                    Contains("value_gather: double backward is not implemented"));
  CHECK_FALSE(value_gather(table.detach(), ids, scale.detach()).requires_grad());
}

TEST_CASE("value_gather_layers equals value_gather table by table, bit for bit, in both directions") {
  at::manual_seed(7);
  const int64_t rows = 40;
  const at::Tensor ids = text_like_ids({9, 70}, rows);
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    std::vector<at::Tensor> leaves;
    for (int i = 0; i < 3; ++i) {
      leaves.push_back(random_table(rows, 19, at::kFloat).requires_grad_(true));
    }
    // One table has strided rows.
    leaves[1] = random_table(rows, 31, at::kFloat).slice(1, 5, 24).requires_grad_(true);
    for (int i = 0; i < 3; ++i) {
      leaves.push_back(at::full({1}, 0.5 + i, at::kFloat).requires_grad_(true));
    }
    const at::TensorList all(leaves);
    const auto values =
        value_gather_layers(all.slice(0, 3), ids, all.slice(3), dtype, token_index(ids, rows));
    std::vector<at::Tensor> expected_values;
    std::vector<at::Tensor> weights;
    for (int i = 0; i < 3; ++i) {
      expected_values.push_back(value_gather(leaves[i], ids, leaves[3 + i], dtype));
      weights.push_back(at::randn({9, 70, 19}).to(dtype));
      CHECK(bitwise_equal(values[i], expected_values[i]));
    }
    const auto actual = torch::autograd::grad(values, leaves, weights);
    const auto expected = torch::autograd::grad(expected_values, leaves, weights);
    for (size_t i = 0; i < leaves.size(); ++i) {
      CHECK(bitwise_equal(actual[i], expected[i]));
    }
  }
}

TEST_CASE(
    "value_gather_layers needs no gradient of a result that is not used, nor of a table that is fixed") {
  at::manual_seed(8);
  const at::Tensor ids = text_like_ids({50}, 6);
  const at::Tensor fixed = random_table(6, 4, at::kFloat);
  const at::Tensor used = random_table(6, 4, at::kFloat).requires_grad_(true);
  const at::Tensor unused = random_table(6, 4, at::kFloat).requires_grad_(true);
  const auto values = value_gather_layers({fixed, used, unused}, ids);
  const auto actual = torch::autograd::grad({values[0].sum() + values[1].sum()}, {used, unused});
  CHECK(at::equal(actual[0].select(1, 0), at::bincount(ids, {}, 6).to(at::kFloat)));
  CHECK(at::equal(actual[1], at::zeros_like(unused)));
}
