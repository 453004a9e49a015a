#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <c10/core/InferenceMode.h>
#include <torch/autograd.h>

#include "csrc/bank_attention.h"
#include "ops/bank_attention_cases.h"
#include "support/catch.h"
#include "support/tensor_compare.h"

namespace {

using bov::ops::BankAlgorithm;
using bov::testing::bank_case;
using bov::testing::BankCase;
using bov::testing::bitwise_equal;
using Catch::Matchers::Contains;

/// What running `c` says after `change`.
template <typename Change>
void check_error(const char* message, const Change& change) {
  for (const bool inference : {false, true}) {
    const c10::InferenceMode mode(inference);
    BankCase c = bank_case({.queries = 2}, at::kFloat);
    change(c);
    CHECK_THROWS_WITH(c.run(), Contains(message));
  }
}

}  // namespace

TEST_CASE("bank_attention names what is wrong with its arguments, in training and in inference mode") {
  check_error("q must be [batch, queries, heads, head size], got [2, 3, 5]",
              [](BankCase& c) { c.q = c.q.select(1, 0); });
  check_error("q must be float64, float32", [](BankCase& c) { c.q = c.q.to(at::kInt); });
  check_error("keys must be [batch, slots, key heads, head size]", [](BankCase& c) { c.keys = c.keys[0]; });
  check_error("keys must be [batch, slots, key heads, head size]",
              [](BankCase& c) { c.keys = c.keys.slice(3, 0, 4); });
  check_error("the 3 heads of q are no multiple of the 2 heads of keys",
              [](BankCase& c) { c.keys = c.keys.slice(2, 0, 2); });
  check_error("keys must be float32, bfloat16, float16, or float64 with a float64 q, got Double",
              [](BankCase& c) { c.keys = c.keys.to(at::kDouble); });
  check_error("the last dimension of keys must be adjacent",
              [](BankCase& c) { c.keys = c.keys.transpose(1, 3).contiguous().transpose(1, 3); });
  check_error("table must be [rows, 3 * 5], got [11, 14]",
              [](BankCase& c) { c.table = c.table.slice(1, 0, 14); });
  check_error("table must be float32, bfloat16, float16, int8",
              [](BankCase& c) { c.table = c.table.to(at::kLong); });
  check_error("the columns of table must be adjacent",
              [](BankCase& c) { c.table = c.table.t().contiguous().t(); });
  check_error("row_scale goes with an int8 table and only with one, but table is Float with row_scale",
              [](BankCase& c) { c.row_scale = at::ones({11}); });
  check_error("row_scale goes with an int8 table and only with one, but table is Char without row_scale",
              [](BankCase& c) { c.table = c.table.to(at::kChar); });
  check_error("row_scale must be [11] float32 and contiguous, got [10]", [](BankCase& c) {
    c.table = c.table.to(at::kChar);
    c.row_scale = at::ones({10});
  });
  check_error("ids must be [2, 37], got [2, 36]", [](BankCase& c) { c.ids = c.ids.slice(1, 1); });
  check_error("ids must be int64, int32, int16, uint16 or uint8, got Float",
              [](BankCase& c) { c.ids = c.ids.to(at::kFloat); });
  check_error("lengths must be [2] int64, got [2] Int",
              [](BankCase& c) { c.lengths = c.lengths.to(at::kInt); });
  check_error("lengths must be [2] int64, got [1] Long",
              [](BankCase& c) { c.lengths = c.lengths.slice(0, 1); });
  check_error("left must not be negative, got -1", [](BankCase& c) { c.left = -1; });
  check_error("scale must be one float64, float32, bfloat16 or float16 number, got [2] Float",
              [](BankCase& c) { c.scale = at::ones({2}); });
  check_error("ids is on meta but q is on cpu", [](BankCase& c) { c.ids = c.ids.to(at::kMeta); });
  check_error("table is on meta but q is on cpu", [](BankCase& c) { c.table = c.table.to(at::kMeta); });
}

TEST_CASE("bank_attention names lengths and ids that are out of range") {
  check_error("lengths[1] is 1; it must be 0 or from 2 (queries) to 37 (slots)",
              [](BankCase& c) { c.lengths[1] = 1; });
  check_error("lengths[0] is 38; it must be 0 or from 2", [](BankCase& c) { c.lengths[0] = 38; });
  check_error("lengths[0] is -3; it must be 0 or from 2", [](BankCase& c) { c.lengths[0] = -3; });
  check_error("id 11 at ids[0, 36] is outside the table of 11 rows", [](BankCase& c) { c.ids[0][36] = 11; });
  check_error("id -1 at ids[0, 3] is outside the table of 11 rows", [](BankCase& c) {
    c.ids[0][3] = -1;
    c.ids = c.ids.to(at::kShort);
  });
  check_error("id 4294967296 at ids[1, 0] is outside the table of 11 rows",
              [](BankCase& c) { c.ids[1][0] = int64_t{1} << 32; });
  check_error("is outside the table of 0 rows", [](BankCase& c) { c.table = c.table.slice(0, 0, 0); });
}

TEST_CASE("bank_attention refuses to be differentiated, and works on the same tensors without gradients") {
  BankCase c = bank_case({}, at::kFloat);
  const at::Tensor expected = c.run();
  for (at::Tensor* tensor : {&c.q, &c.keys, &c.table}) {
    const at::Tensor plain = *tensor;
    *tensor = plain.detach().requires_grad_(true);
    CHECK_THROWS_WITH(
        c.run(), Contains("bank_attention: is not differentiable, but") && Contains("requires a gradient"));
    const at::NoGradGuard no_grad;
    CHECK(bitwise_equal(c.run(), expected));
    *tensor = plain;
  }
  c.scale = at::ones({1}).requires_grad_(true);
  CHECK_THROWS_WITH(c.run(), Contains("but scale requires a gradient"));
}

TEST_CASE("bank_attention infers shapes on meta tensors, and refuses the same input") {
  BankCase c = bank_case({.queries = 2}, at::kBFloat16);
  for (at::Tensor* tensor : {&c.q, &c.keys, &c.table, &c.ids, &c.lengths}) {
    *tensor = tensor->to(at::kMeta);
  }
  CHECK(c.run().sizes() == c.q.sizes());
  CHECK(c.run().scalar_type() == at::kBFloat16);
  c.left = -2;
  CHECK_THROWS_WITH(c.run(), Contains("left must not be negative, got -2"));
}

TEST_CASE("bank_attention casts q alone under autocast") {
  const BankCase c = bank_case({}, at::kFloat);
  BankCase cast = c;
  cast.q = c.q.to(at::kBFloat16);
  at::autocast::set_autocast_enabled(at::kCPU, true);
  at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
  const at::Tensor out = c.run();
  at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(at::kCPU, false);
  CHECK(bitwise_equal(out, cast.run()));
}

TEST_CASE("bank_attention reads tables and K caches of more than 2^31 elements", "[.large]") {
  // int8 rows and bfloat16 keys that are never written but where they are read: 2 and 4 GiB of memory that is not touched.
  const int64_t many = (int64_t{1} << 21) + 2, heads = 8, width = 128;
  const at::Tensor q = at::zeros({1, 1, heads, width});
  const at::Tensor row_scale = at::ones({many});
  at::Tensor table = at::empty({many, heads * width}, at::kChar);
  table[1].fill_(3);
  table[many - 1].fill_(5);
  for (const BankAlgorithm algorithm : {BankAlgorithm::indirect, BankAlgorithm::aggregated}) {
    const at::Tensor ids = at::tensor({int64_t{1}, many - 1}, at::kLong).unsqueeze(0);
    // No score differs from another, so the result is the mean of both rows.
    const at::Tensor out = bov::ops::bank_attention(q, at::zeros({1, 2, heads, width}), table, ids,
                                                    at::tensor({int64_t{2}}), 8, {}, row_scale, algorithm);
    CHECK(at::equal(out, at::full({1, 1, heads, width}, 4.0f)));
  }
  at::Tensor keys = at::empty({1, many, heads, width}, at::kBFloat16);
  keys.slice(1, many - 2).zero_();
  const at::Tensor ids = at::ones({1, many}, at::kInt);
  ids[0][many - 1] = many - 1;
  // The query sees the last two slots alone.
  const at::Tensor out = bov::ops::bank_attention(q, keys, table, ids, at::tensor({many}), 1, {}, row_scale,
                                                  BankAlgorithm::automatic);
  CHECK(at::equal(out, at::full({1, 1, heads, width}, 4.0f)));
}
