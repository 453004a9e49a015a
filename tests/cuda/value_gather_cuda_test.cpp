#include <ATen/ATen.h>
#include <torch/autograd.h>

#include <string>
#include <vector>

#include "csrc/reference/token_index_reference.h"
#include "csrc/reference/value_gather_reference.h"
#include "csrc/value_gather.h"
#include "support/catch.h"
#include "support/cuda.h"
#include "support/tensor_compare.h"

namespace {

using bov::ops::token_index;
using bov::ops::TokenIndex;
using bov::ops::value_gather;
using bov::ops::value_gather_layers;
using bov::testing::bitwise_equal;
using bov::testing::relative_error;
using bov::testing::unit_roundoff;
using Catch::Matchers::Contains;
namespace reference = bov::ops::reference;

const std::vector<at::ScalarType> kDtypes = {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf};

/// Ids as in text: every third one is the same frequent token.
at::Tensor text_like_ids(int64_t count, int64_t rows) {
  return at::randint(rows, {count}, at::kLong).masked_fill(at::rand({count}) < 0.33, rows / 2);
}

const auto gather = [](const auto&... arguments) { return value_gather(arguments...); };
const auto reference_gather = [](const auto&... arguments) { return reference::value_gather(arguments...); };

/// The result and the gradients of table and scale, of any implementation.
template <typename Gather>
std::vector<at::Tensor> evaluate(const Gather& gather,
                                 const at::Tensor& table,
                                 const at::Tensor& ids,
                                 const at::Tensor& scale,
                                 const at::Tensor& upstream) {
  const at::Tensor table_leaf = table.detach().requires_grad_(true);
  const at::Tensor scale_leaf = scale.detach().requires_grad_(true);
  const at::Tensor out = gather(table_leaf, ids, scale_leaf, upstream.scalar_type());
  const auto gradients = torch::autograd::grad({out}, {table_leaf, scale_leaf}, {upstream});
  return {out, gradients[0], gradients[1]};
}

}  // namespace

TEST_CASE("value_gather on CUDA equals the reference, and its gradients are as exact as on the CPU",
          "[small]") {
  BOV_NEEDS_CUDA();
  at::manual_seed(1);
  for (const auto table_dtype : kDtypes) {
    for (const auto out_dtype : kDtypes) {
      for (const int64_t width : {1, 7, 64, 130}) {
        INFO(table_dtype << " -> " << out_dtype << ", width " << width);
        const at::Tensor table = at::randn({41, width}, at::kDouble).to(table_dtype);
        const at::Tensor ids = text_like_ids(700, 41);
        const at::Tensor scale = at::full({}, 1.25, at::kFloat);
        const at::Tensor upstream = at::randn({700, width}, at::kDouble).to(out_dtype);
        const auto actual = evaluate(gather, table.cuda(), ids.cuda(), scale.cuda(), upstream.cuda());
        CHECK(bitwise_equal(actual[0], reference::value_gather(table, ids, scale, out_dtype)));
        const auto expected = evaluate(reference_gather, table.to(at::kDouble), ids, scale.to(at::kDouble),
                                       upstream.to(at::kDouble));
        // The bounds of the CPU's test: sums of some 300 terms in the compute precision, then one rounding.
        const bool in_double = table_dtype == at::kDouble || out_dtype == at::kDouble;
        const double sum_error = 20 * unit_roundoff(in_double ? at::kDouble : at::kFloat);
        CHECK(relative_error(actual[1], expected[1]) < sum_error + unit_roundoff(table_dtype));
        CHECK(relative_error(actual[2], expected[2]) < 200 * unit_roundoff(at::kFloat));
      }
    }
  }
}

TEST_CASE("value_gather on CUDA gives the same bits twice at the size of a training step") {
  BOV_NEEDS_CUDA();
  at::manual_seed(2);
  const at::Tensor table = at::randn({32768, 768}, at::kFloat).to(at::kBFloat16).cuda();
  const at::Tensor ids = text_like_ids(32768, 32768).cuda();
  const at::Tensor scale = at::ones({}, at::kFloat).cuda();
  const at::Tensor upstream = at::randn({32768, 768}, at::kFloat).to(at::kBFloat16).cuda();
  const auto first = evaluate(gather, table, ids, scale, upstream);
  const auto second = evaluate(gather, table, ids, scale, upstream);
  for (size_t i = 0; i < first.size(); ++i) {
    CHECK(bitwise_equal(first[i], second[i]));
  }
}

TEST_CASE("value_gather on CUDA accepts strided tables, int32 ids and empty ones", "[small]") {
  BOV_NEEDS_CUDA();
  at::manual_seed(3);
  const at::Tensor table = at::randn({9, 8}, at::kFloat);
  const at::Tensor ids = text_like_ids(30, 8);
  for (const at::Tensor& view : {table.slice(1, 1, 7), table.t()}) {
    const at::Tensor on_device = table.cuda();
    const at::Tensor device_view = view.size(0) == 9 ? on_device.slice(1, 1, 7) : on_device.t();
    CHECK(bitwise_equal(value_gather(device_view, ids.to(at::kInt).cuda()),
                        reference::value_gather(view, ids)));
  }
  CHECK(value_gather(table.cuda(), ids.slice(0, 0, 0).cuda()).sizes() == at::IntArrayRef({0, 8}));
}

TEST_CASE("value_gather on CUDA makes NaN of an id outside the table and names it at the next call",
          "[small]") {
  BOV_NEEDS_CUDA();
  const at::Tensor table = at::ones({5, 3}).cuda();
  for (const int64_t bad : {int64_t{5}, int64_t{-1}, int64_t{1} << 40}) {
    const at::Tensor out = value_gather(table, at::tensor({int64_t{1}, bad}, at::kLong).cuda()).cpu();
    CHECK(at::equal(out[0], at::ones({3})));
    CHECK(out[1].isnan().all().item<bool>());
    CHECK_THROWS_WITH(value_gather(table, at::zeros({1}, at::kLong).cuda()),
                      Contains("found id " + std::to_string(bad) + " outside its table of 5 rows"));
  }
  CHECK_THROWS_WITH(value_gather(table, at::zeros({1}, at::kLong)),
                    Contains("ids are on cpu but table is on cuda"));
}

TEST_CASE("token_index on CUDA equals the reference and leaves out ids outside the table", "[small]") {
  BOV_NEEDS_CUDA();
  at::manual_seed(2);
  for (const int64_t rows : {1, 300, 40000}) {
    for (const int64_t count : {0, 1, 1000}) {
      INFO(rows << " rows, " << count << " ids");
      const at::Tensor ids = text_like_ids(count, rows);
      const TokenIndex actual = token_index(ids.cuda(), rows);
      const TokenIndex expected = reference::token_index(ids, rows);
      for (const auto part :
           {&TokenIndex::positions, &TokenIndex::offsets, &TokenIndex::distinct, &TokenIndex::count}) {
        CHECK(at::equal((actual.*part).cpu(), expected.*part));
      }
    }
  }
  const TokenIndex index = token_index(at::tensor({5, 7, 0, 5}, at::kLong).cuda(), 6);
  CHECK(at::equal(index.offsets.cpu(), at::tensor({0, 1, 3, 3, 3}, at::kInt)));
  CHECK(at::equal(index.distinct.cpu(), at::tensor({0, 5, 6, 6}, at::kInt)));
  CHECK_THROWS_WITH(token_index(at::zeros({1}, at::kLong).cuda(), 6),
                    Contains("found id 7 outside its table of 6 rows"));
}

TEST_CASE("value_gather on CUDA reads and writes more than 2^31 elements") {
  BOV_NEEDS_CUDA();
  const int64_t many = (int64_t{1} << 21) + 2, width = 1024;
  {
    at::Tensor table = at::zeros({many, width}, at::device(at::kCUDA).dtype(at::kBFloat16));
    table[many - 1].fill_(3.0);
    table.requires_grad_(true);
    const at::Tensor out = value_gather(table, at::tensor({many - 1, int64_t{1}}, at::kLong).cuda());
    CHECK(at::equal(out[0], table[many - 1]));
    const at::Tensor gradient = torch::autograd::grad({out.sum()}, {table})[0];
    CHECK(at::equal(gradient[many - 1], at::ones_like(gradient[0])));
    CHECK(gradient.sum(at::kFloat).item<float>() == 2.0f * width);
  }
  const at::Tensor table = at::randn({2, width}).to(at::kBFloat16).cuda().requires_grad_(true);
  at::Tensor ids = at::zeros({many}, at::kLong);
  ids[many - 1] = 1;
  const at::Tensor out = value_gather(table, ids.cuda());
  CHECK(at::equal(out[many - 1], table[1]));
  CHECK(at::equal(out[many - 2], table[0]));
  CHECK(at::equal(torch::autograd::grad({out}, {table}, {out.detach()})[0][1], table[1]));
}

TEST_CASE("value_gather on CUDA sums by any index without leaving its tensors", "[small]") {
  BOV_NEEDS_CUDA();
  at::manual_seed(4);
  const at::Tensor ids = text_like_ids(200, 20).cuda(), other = text_like_ids(200, 20).cuda();
  const at::Tensor table = at::randn({20, 24}).cuda().requires_grad_(true);
  const at::Tensor upstream = at::randn({200, 24}).cuda();
  const auto gradient = [&](const TokenIndex& index) {
    const at::Tensor out = value_gather(table, ids, std::nullopt, std::nullopt, index);
    return torch::autograd::grad({out}, {table}, {upstream})[0];
  };
  // Float32 sums in another order.
  CHECK(relative_error(gradient(token_index(other, 20)),
                       at::zeros_like(table).index_add(0, other, upstream)) < 1e-6);
  TokenIndex wild = token_index(ids, 20);
  for (at::Tensor* part : {&wild.positions, &wild.offsets, &wild.distinct, &wild.count}) {
    part->mul_(-1'000'003).add_(7);
    CHECK_NOTHROW(gradient(wild).cpu());
  }
}

TEST_CASE(
    "value_gather_layers on CUDA equals value_gather table by table, for more tables than one launch takes",
    "[small]") {
  BOV_NEEDS_CUDA();
  at::manual_seed(3);
  const at::Tensor ids = text_like_ids(200, 20).cuda();
  std::vector<at::Tensor> tables;
  for (int i = 0; i < 35; ++i) {
    tables.push_back(at::randn({20, 24}).cuda().requires_grad_(true));
  }
  const auto values = value_gather_layers(tables, ids, {}, at::kBFloat16, token_index(ids, 20));
  std::vector<at::Tensor> expected;
  for (const at::Tensor& table : tables) {
    expected.push_back(value_gather(table, ids, std::nullopt, at::kBFloat16));
  }
  const std::vector<at::Tensor> upstream(tables.size(), at::randn({200, 24}).to(at::kBFloat16).cuda());
  const auto gradients = torch::autograd::grad(values, tables, upstream);
  const auto expected_gradients = torch::autograd::grad(expected, tables, upstream);
  for (size_t i = 0; i < tables.size(); ++i) {
    CHECK(bitwise_equal(values[i], expected[i]));
    CHECK(bitwise_equal(gradients[i], expected_gradients[i]));
  }
}
