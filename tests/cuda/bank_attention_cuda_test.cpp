#include <ATen/ATen.h>

#include "csrc/bank_attention.h"
#include "ops/bank_attention_cases.h"
#include "support/catch.h"
#include "support/cuda.h"
#include "support/tensor_compare.h"

namespace {

using bov::ops::BankAlgorithm;
using bov::testing::bank_case;
using bov::testing::BankCase;
using bov::testing::bitwise_equal;
using bov::testing::relative_error;
using bov::testing::unit_roundoff;
using Catch::Matchers::Contains;

constexpr BankAlgorithm kAlgorithms[] = {BankAlgorithm::automatic, BankAlgorithm::indirect,
                                         BankAlgorithm::aggregated};

BankCase on_device(BankCase c) {
  for (at::Tensor* tensor : {&c.q, &c.keys, &c.table, &c.ids, &c.lengths}) {
    *tensor = tensor->cuda();
  }
  for (std::optional<at::Tensor>* tensor : {&c.scale, &c.row_scale}) {
    if (tensor->has_value()) {
      *tensor = (*tensor)->cuda();
    }
  }
  return c;
}

/// Both algorithms on the device against exact arithmetic, twice.
void check(const BankCase& c, double bound) {
  const BankCase device = on_device(c);
  const at::Tensor expected = c.exact_reference();
  for (const BankAlgorithm algorithm : kAlgorithms) {
    INFO("algorithm " << static_cast<int>(algorithm));
    const at::Tensor out = device.run(algorithm);
    CHECK(relative_error(out, expected) < bound);
    CHECK(bitwise_equal(device.run(algorithm), out));
  }
}

}  // namespace

TEST_CASE("bank_attention on CUDA equals the reference in every dtype, layout and window", "[small]") {
  BOV_NEEDS_CUDA();
  at::manual_seed(1);
  for (const int64_t queries : {1, 3}) {
    for (const int64_t group : {1, 5}) {
      for (const int64_t width : {7, 64, 128}) {
        for (const int64_t left : {0, 130, 100000}) {
          INFO("queries " << queries << ", group " << group << ", width " << width << ", left " << left);
          BankCase c = bank_case({.batch = 3,
                                  .queries = queries,
                                  .heads = 2 * group,
                                  .key_heads = 2,
                                  .width = width,
                                  .slots = 301});
          c.left = left;
          c.scale = at::full({1}, -1.7, at::kFloat);
          check(c, 1e-14);  // some hundred float64 terms in another order
          c.keys = c.keys.transpose(1, 2).contiguous().transpose(1, 2);
          for (const auto dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
            BankCase cast = c;
            cast.q = c.q.to(dtype);
            cast.keys = c.keys.to(dtype);
            cast.table = c.table.to(dtype);
            check(cast, 30 * unit_roundoff(at::kFloat) + unit_roundoff(dtype));
          }
        }
      }
    }
  }
}

TEST_CASE("bank_attention on CUDA reads int8 tables and ids of every dtype, and leaves idle rows 0",
          "[small]") {
  BOV_NEEDS_CUDA();
  at::manual_seed(2);
  BankCase c = bank_case({.batch = 3, .heads = 4, .key_heads = 2, .width = 64, .slots = 150}, at::kFloat);
  c.table = at::randint(-127, 128, c.table.sizes(), at::kLong).to(at::kChar);
  c.row_scale = at::rand({c.table.size(0)}, at::kFloat) * 0.01;
  c.lengths[1] = 0;
  const at::Tensor ids = c.ids;
  for (const auto dtype : {at::kLong, at::kInt, at::kShort, at::kUInt16, at::kByte}) {
    c.ids = ids.to(dtype);
    check(c, 30 * unit_roundoff(at::kFloat));
  }
}

TEST_CASE("bank_attention on CUDA sums long histories", "[small]") {
  BOV_NEEDS_CUDA();
  at::manual_seed(3);
  // More slots than 512 splits of 128 hold. Sums of so many float32 terms err by the root of their number.
  check(bank_case({.batch = 1, .heads = 6, .key_heads = 6, .width = 128, .slots = 70000, .rows = 5000},
                  at::kFloat),
        300 * unit_roundoff(at::kFloat));
}

TEST_CASE("bank_attention on CUDA makes NaN of ids and lengths out of range, and reports the ids",
          "[small]") {
  BOV_NEEDS_CUDA();
  at::manual_seed(4);
  for (const BankAlgorithm algorithm : {BankAlgorithm::indirect, BankAlgorithm::aggregated}) {
    BankCase c = bank_case({.batch = 3, .slots = 200});
    const at::Tensor expected = c.reference();
    c.ids[1][40] = 11;
    c.lengths[2] = 201;
    const at::Tensor out = on_device(c).run(algorithm).cpu();
    CHECK(relative_error(out[0], expected[0]) < 1e-14);
    CHECK(out[1].isnan().all().item<bool>());
    CHECK(out[2].isnan().all().item<bool>());
    const BankCase good = on_device(bank_case({}));
    CHECK_THROWS_WITH(good.run(algorithm), Contains("found id 11 outside its table of 11 rows"));
    CHECK(good.run(algorithm).isfinite().all().item<bool>());
  }
}
