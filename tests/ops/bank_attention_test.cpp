#include "csrc/bank_attention.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <c10/core/InferenceMode.h>
#include <torch/autograd.h>

#include <limits>
#include <vector>

#include "ops/bank_attention_cases.h"
#include "support/catch.h"
#include "support/tensor_compare.h"

namespace {

using bov::ops::BankAlgorithm;
using bov::testing::bank_case;
using bov::testing::BankCase;
using bov::testing::BankSizes;
using bov::testing::bitwise_equal;
using bov::testing::relative_error;
using bov::testing::unit_roundoff;
using Catch::Matchers::Contains;

constexpr BankAlgorithm kAlgorithms[] = {BankAlgorithm::automatic, BankAlgorithm::indirect,
                                         BankAlgorithm::aggregated};

/// Sums of some hundred float64 terms in another order, and e^x: a few dozen roundings.
constexpr double kDoubleError = 1e-14;

void check_exact(const BankCase& c) {
  for (const BankAlgorithm algorithm : kAlgorithms) {
    INFO("algorithm " << static_cast<int>(algorithm));
    CHECK(relative_error(c.run(algorithm), c.reference()) < kDoubleError);
  }
}

}  // namespace

TEST_CASE("bank_attention equals the reference in float64 for odd sizes, grouped heads and several queries") {
  at::manual_seed(1);
  for (const int64_t queries : {1, 2, 5}) {
    for (const int64_t group : {1, 2, 3}) {
      for (const int64_t width : {1, 7, 8, 33}) {
        for (const int64_t slots : {5, 37, 259}) {
          INFO("queries " << queries << ", group " << group << ", width " << width << ", slots " << slots);
          BankCase c =
              bank_case({.batch = 3, .queries = queries, .heads = 3 * group, .width = width, .slots = slots});
          check_exact(c);
          c.scale = at::full({1}, -1.7, at::kFloat);
          c.left = 3;
          check_exact(c);
        }
      }
    }
  }
}

TEST_CASE("bank_attention gives numbers that were worked out by hand") {
  // Two heads of size 1. Scores are 0 and ln 3, so weights are 1/4 and 3/4; rows are the ids in tens, then their
  // negatives.
  BankCase c;
  c.q = at::ones({1, 1, 2, 1}, at::kDouble);
  c.keys = at::tensor({0.0, 0.0, std::log(3.0), std::log(3.0)}, at::kDouble).view({1, 2, 2, 1});
  c.table = at::tensor({0.0, 0.0, 10.0, -10.0, 20.0, -20.0}, at::kDouble).view({3, 2});
  c.ids = at::tensor({1, 2}, at::kLong).view({1, 2});
  c.lengths = at::tensor({2}, at::kLong);
  c.scale = at::full({}, 2.0, at::kDouble);
  const at::Tensor expected = at::tensor({35.0, -35.0}, at::kDouble).view({1, 1, 2, 1});
  for (const BankAlgorithm algorithm : kAlgorithms) {
    CHECK(relative_error(c.run(algorithm), expected) < kDoubleError);
  }
  c.left = 0;  // the last slot alone
  CHECK(relative_error(c.run(), at::tensor({40.0, -40.0}, at::kDouble).view({1, 1, 2, 1})) < kDoubleError);
}

TEST_CASE("bank_attention sees the window's slots and reads no others") {
  at::manual_seed(2);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const int64_t queries : {1, 4}) {
    for (const int64_t left : {0, 1, 6, 36, 37, 1000}) {
      INFO("queries " << queries << ", left " << left);
      BankCase c = bank_case({.batch = 3, .queries = queries, .heads = 4, .key_heads = 2});
      c.left = left;
      const at::Tensor expected = c.reference();
      for (int64_t b = 0; b < 3; ++b) {
        const int64_t length = c.lengths[b].item<int64_t>();
        const int64_t first = std::max<int64_t>(0, length - queries - left);
        for (const auto& [begin, end] : {std::pair(int64_t{0}, first), std::pair(length, c.keys.size(1))}) {
          c.keys[b].slice(0, begin, end).fill_(nan);
          c.ids[b].slice(0, begin, end).fill_(-1);
        }
      }
      for (const BankAlgorithm algorithm : kAlgorithms) {
        CHECK(relative_error(c.run(algorithm), expected) < kDoubleError);
      }
    }
  }
}

TEST_CASE("bank_attention accepts repeated ids of every kind, idle rows and empty batches") {
  at::manual_seed(3);
  BankCase c = bank_case({.batch = 2, .slots = 700, .rows = 900});
  c.ids.fill_(899);
  check_exact(c);
  c.ids.copy_(at::stack({at::arange(700), at::arange(700).flip(0)}));
  check_exact(c);

  c.lengths[1] = 0;
  for (const BankAlgorithm algorithm : kAlgorithms) {
    const at::Tensor out = c.run(algorithm);
    CHECK(at::equal(out[1], at::zeros_like(out[1])));
    CHECK(relative_error(out[0], c.reference()[0]) < kDoubleError);
  }
  for (const BankAlgorithm algorithm : kAlgorithms) {
    CHECK(bank_case({.batch = 0}).run(algorithm).sizes() == at::IntArrayRef({0, 1, 3, 5}));
    CHECK(bank_case({.queries = 0}).run(algorithm).sizes() == at::IntArrayRef({2, 0, 3, 5}));
    BankCase idle = bank_case({.queries = 0, .slots = 0});
    idle.q = at::randn({2, 1, 3, 5}, at::kDouble);
    CHECK(at::equal(idle.run(algorithm), at::zeros_like(idle.q)));
  }
}

TEST_CASE("bank_attention adds up long histories in several groups and ranges") {
  at::manual_seed(4);
  BankCase c = bank_case({.batch = 1, .heads = 2, .key_heads = 1, .width = 3, .slots = 40001, .rows = 3000});
  // Forty thousand terms in another order: the error of a sum grows with the root of their number.
  for (const BankAlgorithm algorithm : kAlgorithms) {
    CHECK(relative_error(c.run(algorithm), c.reference()) < 1e-12);
  }
}

TEST_CASE("bank_attention finds equal ids in tables of any size") {
  at::manual_seed(6);
  for (const int64_t rows : {1, 2, 63, 300, 1000, 100000}) {
    BankCase c = bank_case({.batch = 2, .slots = 150, .rows = rows});
    for (const int64_t step : {1, 64, 512, 4096}) {
      INFO("rows " << rows << ", step " << step);
      check_exact(c);
      // Few ids, at equal distances and with one more between them.
      c.ids = (at::randint(20, {2, 150}, at::kLong) * step + at::randint(2, {2, 150}, at::kLong)) % rows;
    }
    c.ids = at::randint(rows, {2, 150}, at::kLong);
    check_exact(c);
  }
}

TEST_CASE("bank_attention chooses by the number of slots and by how often ids repeat") {
  at::manual_seed(5);
  const auto chosen = [](const BankCase& c) {
    const bool indirect = bitwise_equal(c.run(), c.run(BankAlgorithm::indirect));
    const bool aggregated = bitwise_equal(c.run(), c.run(BankAlgorithm::aggregated));
    CHECK(indirect != aggregated);
    return indirect ? BankAlgorithm::indirect : BankAlgorithm::aggregated;
  };
  BankCase c = bank_case({.batch = 1, .heads = 1, .key_heads = 1, .slots = 4000, .rows = 4000}, at::kFloat);
  CHECK(chosen(c) == BankAlgorithm::aggregated);
  c.left = 500;
  CHECK(chosen(c) == BankAlgorithm::indirect);
  c.left = 4000;
  c.ids.copy_(at::randperm(4000).view({1, 4000}));
  CHECK(chosen(c) == BankAlgorithm::indirect);
}

TEST_CASE("bank_attention reads keys, tables and ids of any layout and ids of any dtype") {
  at::manual_seed(6);
  BankCase c = bank_case({.batch = 3, .queries = 2, .heads = 4, .key_heads = 2, .width = 9});
  const at::Tensor expected = c.reference();
  const auto check = [&] {
    for (const BankAlgorithm algorithm : kAlgorithms) {
      CHECK(relative_error(c.run(algorithm), expected) < kDoubleError);
    }
  };
  c.keys = c.keys.transpose(1, 2).contiguous().transpose(1, 2);
  check();
  c.keys = at::cat({c.keys, c.keys}, 3).slice(3, 0, 9);
  check();
  c.table = at::cat({c.table, c.table}, 1).slice(1, 0, 18);
  check();
  c.q = c.q.permute({3, 1, 0, 2}).contiguous().permute({2, 1, 3, 0});
  check();
  c.ids = c.ids.t().contiguous().t();
  check();
  c.lengths = c.lengths.unsqueeze(1).repeat({1, 2}).select(1, 0);
  check();
  const at::Tensor ids = c.ids;
  for (const auto dtype : {at::kInt, at::kShort, at::kUInt16, at::kByte}) {
    INFO(dtype);
    c.ids = ids.to(dtype);
    check();
  }
}

TEST_CASE("bank_attention rounds as the dtypes of q, keys and table make it") {
  at::manual_seed(7);
  for (const auto q : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const auto keys : {at::kFloat, at::kBFloat16, at::kHalf}) {
      for (const auto table : {at::kFloat, at::kBFloat16, at::kHalf}) {
        for (const int64_t width : {3, 32, 70}) {
          INFO("q " << q << ", keys " << keys << ", table " << table << ", width " << width);
          BankCase c = bank_case({.heads = 6, .width = width, .slots = 300}, at::kFloat);
          c.q = c.q.to(q);
          c.keys = c.keys.to(keys);
          c.table = c.table.to(table);
          c.scale = at::full({1}, 1.3, q);
          for (const BankAlgorithm algorithm : kAlgorithms) {
            const at::Tensor out = c.run(algorithm);
            CHECK(out.scalar_type() == q);
            // Scores are sums of up to 70 float32 products and are below 10; weights inherit their absolute error.
            CHECK(relative_error(out, c.exact_reference()) <
                  30 * unit_roundoff(at::kFloat) + unit_roundoff(q));
          }
        }
      }
    }
  }
  // Half precision's own numbers: subnormal, infinite, NaN.
  BankCase c =
      bank_case({.batch = 1, .heads = 1, .key_heads = 1, .width = 16, .slots = 1, .rows = 1}, at::kFloat);
  c.table = at::tensor({6e-8, -6e-8, 65504.0, -0.0}, at::kDouble).to(at::kHalf).repeat({1, 4});
  CHECK(at::equal(c.run().flatten(), c.table.to(at::kFloat).flatten()));
  c.table[0][0] = std::numeric_limits<double>::infinity();
  c.table[0][1] = std::numeric_limits<double>::quiet_NaN();
  CHECK(c.run().flatten()[0].item<float>() == std::numeric_limits<float>::infinity());
  CHECK(c.run().flatten()[1].isnan().item<bool>());
}

TEST_CASE("bank_attention reads int8 tables with one scale for each row") {
  at::manual_seed(8);
  for (const auto q : {at::kDouble, at::kFloat}) {
    for (const int64_t width : {3, 64, 70}) {
      BankCase c = bank_case({.queries = 2, .heads = 4, .key_heads = 2, .width = width}, q);
      c.table = at::randint(-127, 128, c.table.sizes(), at::kLong).to(at::kChar);
      c.row_scale = at::rand({c.table.size(0)}, at::kFloat) * 0.01;
      for (const BankAlgorithm algorithm : kAlgorithms) {
        CHECK(relative_error(c.run(algorithm), c.exact_reference()) <
              (q == at::kDouble ? kDoubleError : 30 * unit_roundoff(at::kFloat)));
      }
    }
  }
}

TEST_CASE("bank_attention survives scores of any size, and a NaN stays in its head") {
  at::manual_seed(9);
  BankCase c = bank_case({.batch = 1, .heads = 2, .key_heads = 2, .slots = 600}, at::kFloat);
  c.keys.mul_(1e4);
  CHECK(relative_error(c.run(), c.exact_reference()) < 1e-5);  // nearly one slot alone
  for (const BankAlgorithm algorithm : kAlgorithms) {
    BankCase broken = c;
    broken.keys = c.keys.clone();
    broken.keys[0][300][1][0] = std::numeric_limits<double>::quiet_NaN();
    const at::Tensor out = broken.run(algorithm);
    CHECK(bitwise_equal(out.select(2, 0), c.run(algorithm).select(2, 0)));
    CHECK(out.select(2, 1).isnan().all().item<bool>());
  }
}

TEST_CASE("bank_attention's results do not depend on the number of threads") {
  at::manual_seed(10);
  const int threads = at::get_num_threads();
  BankCase c = bank_case({.batch = 3, .heads = 6, .key_heads = 3, .width = 24, .slots = 34000, .rows = 3000},
                         at::kFloat);
  for (const BankAlgorithm algorithm : kAlgorithms) {
    at::set_num_threads(1);
    const at::Tensor expected = c.run(algorithm);
    for (const int count : {2, 3, 7}) {
      at::set_num_threads(count);
      CHECK(bitwise_equal(c.run(algorithm), expected));
    }
  }
  at::set_num_threads(threads);
}
