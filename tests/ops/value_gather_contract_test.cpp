#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <c10/core/InferenceMode.h>
#include <torch/autograd.h>

#include <string>
#include <utility>
#include <vector>

#include "csrc/value_gather.h"
#include "csrc/value_gather_call.h"
#include "support/catch.h"
#include "support/tensor_compare.h"

// What value_gather takes, in which types and sizes, and what it refuses.
namespace {

using bov::ops::token_index;
using bov::ops::TokenIndex;
using bov::ops::value_gather;
using bov::ops::value_gather_layers;
using bov::testing::bitwise_equal;
using Catch::Matchers::Contains;

}  // namespace

TEST_CASE("value_gather names what is wrong with its arguments, in training and in inference mode") {
  const at::Tensor table = at::randn({5, 3});
  const at::Tensor ids = at::zeros({2, 2}, at::kLong);
  for (const bool inference : {false, true}) {
    const c10::InferenceMode mode(inference);
    CHECK_THROWS_WITH(value_gather(table[0], ids), Contains("table must be [rows, width], got [3]"));
    CHECK_THROWS_WITH(value_gather(table.to(at::kInt), ids), Contains("table must be float64, float32"));
    CHECK_THROWS_WITH(value_gather(table, ids.to(at::kFloat)),
                      Contains("ids must be int64 or int32, got Float"));
    CHECK_THROWS_WITH(value_gather(table, ids, at::ones({2})),
                      Contains("scale must have one element, got [2]"));
    CHECK_THROWS_WITH(value_gather(table, ids, at::ones({}, at::kLong)),
                      Contains("scale must be float64, float32"));
    CHECK_THROWS_WITH(value_gather(table, ids, std::nullopt, at::kInt),
                      Contains("dtype must be float64, float32"));
    CHECK_THROWS_WITH(value_gather(table, ids.to(at::kMeta)),
                      Contains("ids are on meta but table is on cpu"));

    const at::Tensor large = at::tensor({0, 1, 2, 5}, at::kLong).view({2, 2});
    CHECK_THROWS_WITH(value_gather(table, large),
                      Contains("id 5 at ids[1, 1] is outside the table of 5 rows"));
    const at::Tensor negative = at::tensor({0, -1}, at::kInt);
    CHECK_THROWS_WITH(value_gather(table, negative),
                      Contains("id -1 at ids[1] is outside the table of 5 rows"));
    CHECK_THROWS_WITH(value_gather(at::empty({0, 3}), ids),
                      Contains("id 0 at ids[0, 0] is outside the table of 0 rows"));
  }
}

TEST_CASE("value_gather infers shapes and dtypes on meta tensors, and refuses the same input") {
  const at::Tensor table = at::empty({5, 3}, at::device(at::kMeta).dtype(at::kBFloat16)).requires_grad_(true);
  const at::Tensor ids = at::empty({2, 4}, at::device(at::kMeta).dtype(at::kLong));
  const at::Tensor out = value_gather(table, ids, std::nullopt, at::kFloat);
  CHECK(out.sizes() == at::IntArrayRef({2, 4, 3}));
  CHECK(out.scalar_type() == at::kFloat);
  const at::Tensor gradient = torch::autograd::grad({out.sum()}, {table})[0];
  CHECK(gradient.sizes() == table.sizes());
  CHECK(gradient.scalar_type() == at::kBFloat16);
  CHECK_THROWS_WITH(value_gather(table[0], ids), Contains("table must be [rows, width], got [3]"));
}

TEST_CASE("value_gather refuses an index of other ids") {
  const at::Tensor table = at::randn({5, 3}).requires_grad_(true);
  const at::Tensor ids = at::tensor({1, 4, 1}, at::kLong);
  CHECK_THROWS_WITH(value_gather(table, ids, std::nullopt, std::nullopt, token_index(ids.slice(0, 1), 5)),
                    Contains("index[0] must be int32 [3] on cpu"));
  CHECK_THROWS_WITH(value_gather(table, ids, std::nullopt, std::nullopt, token_index(ids.to(at::kMeta), 5)),
                    Contains("index[0] must be int32 [3] on cpu"));
  for (const at::Tensor& other : {at::tensor({1, 4, 4}, at::kLong), at::tensor({4, 1, 1}, at::kLong)}) {
    const at::Tensor out = value_gather(table, ids, std::nullopt, std::nullopt, token_index(other, 5));
    CHECK_THROWS_WITH(torch::autograd::grad({out.sum()}, {table}),
                      Contains("index is not the token_index of these ids"));
  }
  // One of a larger table has the same sizes, and rows that this one lacks.
  const at::Tensor out =
      value_gather(table, ids, std::nullopt, std::nullopt, token_index(at::tensor({1, 7, 1}, at::kLong), 9));
  CHECK_THROWS_WITH(torch::autograd::grad({out.sum()}, {table}),
                    Contains("index is not the token_index of these ids"));
}

TEST_CASE("value_gather and its backward pass say alike on each backend what no index of these ids can be") {
  const at::Tensor some = at::tensor({1, 4, 1, 0, 2, 3, 3, 0}, at::kLong);
  for (const at::Device device : {at::kCPU, at::kMeta}) {
    INFO(device);
    const at::Tensor table = at::randn({5, 3}, device), grad = at::randn({8, 3}, device);
    const at::Tensor ids = some.to(device);
    const auto list = [](const TokenIndex& index) {
      return std::vector<at::Tensor>{index.positions, index.offsets, index.distinct, index.count};
    };
    const std::vector<at::Tensor> good = list(token_index(ids, 5));
    const auto with = [&](size_t i, const at::Tensor& tensor) {
      std::vector<at::Tensor> index = good;
      index[i] = tensor;
      return index;
    };
    for (const auto& [index, message] : std::vector<std::pair<std::vector<at::Tensor>, std::string>>{
             {{good[0], good[1], good[2]}, "index must be the four tensors of token_index, got 3"},
             {with(0, good[0].to(at::kLong)), "index[0] must be int32 [8] on " + device.str()},
             {list(token_index(ids.slice(0, 1), 5)), "index[0] must be int32 [8] on " + device.str()},
             {list(token_index(ids, 9)), "index[1] must be int32 [6] on " + device.str()},
             {with(2, at::zeros({10}, good[2].options()).slice(0, 0, 10, 2)),
              "index[2] must be int32 [5] on"},
             {with(3, at::zeros({1}, at::device(at::kMeta == device ? at::kCPU : at::kMeta).dtype(at::kInt))),
              "index[3] must be int32 [1] on " + device.str()}}) {
      CHECK_THROWS_WITH(bov::ops::call_value_gather_layers({table}, ids, {}, index, std::nullopt),
                        Contains("value_gather: " + message));
      CHECK_THROWS_WITH(
          bov::ops::call_value_gather_layers_backward({grad}, {table}, ids, {}, index, true, false),
          Contains("value_gather: " + message));
    }
  }
}

TEST_CASE("value_gather_layers names what is wrong with its lists") {
  const at::Tensor table = at::randn({5, 3});
  const at::Tensor ids = at::zeros({2}, at::kLong);
  CHECK_THROWS_WITH(value_gather_layers({}, ids), Contains("tables must not be empty"));
  CHECK_THROWS_WITH(value_gather_layers({table, at::randn({5, 4})}, ids),
                    Contains("tables[1] is Float[5, 4] but tables[0] is Float[5, 3]"));
  CHECK_THROWS_WITH(value_gather_layers({table, table.to(at::kHalf)}, ids),
                    Contains("tables[1] is Half[5, 3] but tables[0] is Float[5, 3]"));
  CHECK_THROWS_WITH(value_gather_layers({table, table[0]}, ids),
                    Contains("tables[1] must be [rows, width], got [3]"));
  CHECK_THROWS_WITH(value_gather_layers({table, table}, ids, at::ones({1})),
                    Contains("there are 2 tables but 1 scales"));
  CHECK_THROWS_WITH(value_gather_layers({table, table}, ids, {at::ones({1}), at::ones({2})}),
                    Contains("scales[1] must have one element, got [2]"));
}

TEST_CASE("value_gather follows autocast in its result alone") {
  const at::Tensor table = at::randn({5, 3});
  const at::Tensor ids = at::tensor({4, 0}, at::kLong);
  at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
  at::autocast::set_autocast_enabled(at::kCPU, true);
  const at::Tensor cast = value_gather(table, ids);
  const at::Tensor chosen = value_gather(table, ids, std::nullopt, at::kFloat);
  const at::Tensor precise = value_gather(table.to(at::kDouble), ids);
  at::autocast::set_autocast_enabled(at::kCPU, false);
  CHECK(bitwise_equal(cast, value_gather(table, ids, std::nullopt, at::kBFloat16)));
  CHECK(chosen.scalar_type() == at::kFloat);
  CHECK(precise.scalar_type() == at::kDouble);
}

TEST_CASE("value_gather reads tables of more than 2^31 elements") {
  // Pages that nobody touches take no memory.
  const int64_t rows = (int64_t{1} << 21) + 2;
  at::Tensor table = at::empty({rows, 1024}, at::kBFloat16);
  table[rows - 1].fill_(3.0);
  table[1].fill_(5.0);
  const at::Tensor out = value_gather(table, at::tensor({rows - 1, int64_t{1}}, at::kLong));
  CHECK(at::equal(out[0], table[rows - 1]));
  CHECK(at::equal(out[1], table[1]));
}

TEST_CASE("value_gather's backward pass reads tables and gradients of more than 2^31 elements") {
  const int64_t rows = (int64_t{1} << 21) + 2, width = 1024;
  at::Tensor memory = at::empty({rows, width}, at::kBFloat16);
  memory[rows - 1].fill_(3.0);
  memory[1].fill_(2.0);
  {
    const at::Tensor scale = at::ones({1}).requires_grad_(true);
    const at::Tensor out = value_gather(memory, at::tensor({rows - 1, int64_t{1}}, at::kLong), scale);
    CHECK(torch::autograd::grad({out.sum()}, {scale})[0].item<float>() == 5.0f * width);
  }
  // Two rows of a gradient, as far apart.
  const at::Tensor upstream = memory.as_strided({2, width}, {(rows - 2) * width, 1}, width);
  const at::Tensor table = at::zeros({3, width}, at::kBFloat16).requires_grad_(true);
  const at::Tensor out = value_gather(table, at::tensor({0, 2}, at::kLong));
  const at::Tensor gradient = torch::autograd::grad({out}, {table}, {upstream})[0];
  CHECK(at::equal(gradient[0], at::full({width}, 2.0, at::kBFloat16)));
  CHECK(at::equal(gradient[2], at::full({width}, 3.0, at::kBFloat16)));
}

// Writes 4 GiB twice; started by its tag, see docs/ops.md.
TEST_CASE("value_gather's results and gradients may have more than 2^31 elements", "[.large]") {
  const int64_t many = (int64_t{1} << 21) + 2;
  const int64_t width = 1024;
  {
    const at::Tensor table = at::empty({many, width}, at::kBFloat16).requires_grad_(true);
    const at::Tensor ids = at::tensor({many - 1, int64_t{1}}, at::kLong);
    const at::Tensor gradient = torch::autograd::grad({value_gather(table, ids).sum()}, {table})[0];
    CHECK(at::equal(gradient[many - 1], at::ones({width}, at::kBFloat16)));
    CHECK(gradient.sum(at::kFloat).item<float>() == 2.0f * width);
  }
  {
    const at::Tensor table = at::randn({2, width}).to(at::kBFloat16).requires_grad_(true);
    at::Tensor ids = at::zeros({many}, at::kLong);
    ids[many - 1] = 1;
    at::Tensor out = value_gather(table, ids);
    CHECK(at::equal(out[many - 1], table[1]));
    CHECK(at::equal(out[many - 2], table[0]));
    // The result itself serves as its gradient, so that no more memory is needed.
    const at::Tensor gradient = torch::autograd::grad({out}, {table}, {out.detach()})[0];
    CHECK(at::equal(gradient[1], table[1]));
  }
}
