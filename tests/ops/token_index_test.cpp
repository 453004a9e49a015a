#include "csrc/token_index.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "csrc/kernels/token_index_threads.h"
#include "csrc/reference/token_index_reference.h"
#include "kernels/host_executor.h"
#include "support/catch.h"

namespace {

using bov::ops::token_index;
using bov::ops::TokenIndex;
using Catch::Matchers::Contains;
namespace reference = bov::ops::reference;
namespace kernels = bov::kernels;

void check_equal(const TokenIndex& actual, const TokenIndex& expected) {
  for (const auto part :
       {&TokenIndex::positions, &TokenIndex::offsets, &TokenIndex::distinct, &TokenIndex::count}) {
    CHECK((actual.*part).scalar_type() == at::kInt);
    CHECK(at::equal(actual.*part, expected.*part));
  }
}

/// Text-like ids: many are one and the same, the others are spread over the table.
at::Tensor some_ids(at::IntArrayRef shape, int64_t rows) {
  return at::randint(rows, shape, at::kLong).masked_fill(at::rand(shape) < 0.3, rows / 2);
}

/// The index as it is made on CUDA: by the same kernels, with the standard library in place of cub.
TokenIndex index_as_device(const at::Tensor& ids, int64_t rows, kernels::IdReport& report) {
  const int64_t n = ids.numel();
  const int64_t capacity = std::min(n, rows);
  TokenIndex index{at::empty({n}, at::kInt), at::full({capacity + 1}, -7, at::kInt),
                   at::full({capacity}, -7, at::kInt), at::zeros({1}, at::kInt)};
  bov::testing::HostExecutor executor;
  std::vector<int32_t> key_of(n), places(n), keys;
  executor.launch(
      kernels::PairKernel{ids.const_data_ptr<int64_t>(), n, rows, key_of.data(), places.data(), &report});
  auto* order = index.positions.mutable_data_ptr<int32_t>();
  std::ranges::copy(places, order);
  std::stable_sort(order, order + n, [&](int32_t a, int32_t b) { return key_of[a] < key_of[b]; });
  for (int64_t k = 0; k < n; ++k) {
    keys.push_back(key_of[order[k]]);
  }
  auto* offsets = index.offsets.mutable_data_ptr<int32_t>();
  auto* count = index.count.mutable_data_ptr<int32_t>();
  const kernels::BeginsSegment begins{keys.data(), rows};
  for (int32_t k = 0; k < n; ++k) {
    if (begins(k)) {
      REQUIRE(*count < capacity);
      offsets[(*count)++] = k;
    }
  }
  executor.launch(kernels::FillKernel{keys.data(), n, rows, count, capacity, offsets,
                                      index.distinct.mutable_data_ptr<int32_t>()});
  return index;
}

}  // namespace

TEST_CASE("token_index gives exact numbers that were worked out by hand") {
  const TokenIndex index = token_index(at::tensor({7, 2, 7, 0, 2, 7}, at::kLong).view({2, 3}), 9);
  CHECK(at::equal(index.positions, at::tensor({3, 1, 4, 0, 2, 5}, at::kInt)));
  CHECK(at::equal(index.offsets, at::tensor({0, 1, 3, 6, 6, 6, 6}, at::kInt)));
  CHECK(at::equal(index.distinct, at::tensor({0, 2, 7, 9, 9, 9}, at::kInt)));
  CHECK(at::equal(index.count, at::tensor({3}, at::kInt)));
}

TEST_CASE("token_index equals the reference, on the host and as the device makes it") {
  at::manual_seed(1);
  // One, two, three and four bytes of key; more rows than ids and fewer.
  for (const int64_t rows : {1, 2, 255, 256, 257, 32768, 65537, 20000000}) {
    for (const int64_t n : {1, 2, 63, 1000}) {
      INFO(rows << " rows, " << n << " ids");
      const at::Tensor ids = some_ids({n}, rows);
      const TokenIndex expected = reference::token_index(ids, rows);
      check_equal(token_index(ids, rows), expected);
      check_equal(token_index(ids.to(at::kInt), rows), expected);
      kernels::IdReport report{};
      check_equal(index_as_device(ids, rows, report), expected);
      CHECK(report.found == 0);
    }
  }
}

TEST_CASE("token_index accepts any shape and strides, no ids and a table without rows") {
  at::manual_seed(2);
  const at::Tensor ids = some_ids({4, 5, 3}, 11);
  check_equal(token_index(ids, 11), reference::token_index(ids, 11));
  const at::Tensor strided = ids.transpose(0, 2);
  check_equal(token_index(strided, 11), reference::token_index(strided, 11));
  check_equal(token_index(ids[0][0][0], 11), reference::token_index(ids[0][0][0], 11));

  for (const int64_t rows : {0, 5}) {
    const TokenIndex none = token_index(at::empty({0, 2}, at::kLong), rows);
    CHECK(none.positions.numel() == 0);
    CHECK(none.distinct.numel() == 0);
    CHECK(at::equal(none.offsets, at::zeros({1}, at::kInt)));
    CHECK(at::equal(none.count, at::zeros({1}, at::kInt)));
  }
}

TEST_CASE("token_index leaves out and reports ids outside the table where it cannot throw") {
  for (const int64_t bad : {int64_t{6}, int64_t{-1}, std::numeric_limits<int64_t>::max()}) {
    const at::Tensor ids = at::tensor({int64_t{5}, bad, int64_t{0}, int64_t{5}}, at::kLong);
    kernels::IdReport report{};
    const TokenIndex index = index_as_device(ids, 6, report);
    CHECK(at::equal(index.positions.slice(0, 0, 3), at::tensor({2, 0, 3}, at::kInt)));
    CHECK(at::equal(index.offsets, at::tensor({0, 1, 3, 3, 3}, at::kInt)));
    CHECK(at::equal(index.distinct, at::tensor({0, 5, 6, 6}, at::kInt)));
    CHECK(index.count.item<int>() == 2);
    CHECK(report.found == 1);
    CHECK(report.id == bad);
    CHECK(report.rows == 6);
  }
}

TEST_CASE("token_index names what is wrong with its arguments, in training and in inference mode") {
  const at::Tensor ids = at::zeros({2, 2}, at::kLong);
  for (const bool inference : {false, true}) {
    const c10::InferenceMode mode(inference);
    CHECK_THROWS_WITH(token_index(ids.to(at::kFloat), 5), Contains("ids must be int64 or int32, got Float"));
    CHECK_THROWS_WITH(token_index(ids, -1), Contains("rows must be in [0, 2^31 - 1), got -1"));
    CHECK_THROWS_WITH(token_index(ids, int64_t{1} << 31), Contains("rows must be in [0, 2^31 - 1)"));
    CHECK_THROWS_WITH(token_index(at::zeros({1}, at::kLong).expand({int64_t{1} << 31}), 5),
                      Contains("there must be fewer than 2^31 - 1 ids, got 2147483648"));
    CHECK_THROWS_WITH(token_index(at::tensor({0, 5}, at::kInt), 5),
                      Contains("token_index: id 5 at ids[1] is outside the table of 5 rows"));
    CHECK_THROWS_WITH(token_index(at::tensor({-1}, at::kLong), 5),
                      Contains("token_index: id -1 at ids[0] is outside the table of 5 rows"));
    CHECK_THROWS_WITH(token_index(ids, 0), Contains("id 0 at ids[0, 0] is outside the table of 0 rows"));
  }
}

TEST_CASE("token_index infers sizes on meta tensors") {
  const TokenIndex index = token_index(at::empty({3, 4}, at::device(at::kMeta).dtype(at::kLong)), 5);
  CHECK(index.positions.sizes() == at::IntArrayRef({12}));
  CHECK(index.offsets.sizes() == at::IntArrayRef({6}));
  CHECK(index.distinct.sizes() == at::IntArrayRef({5}));
  CHECK(index.count.sizes() == at::IntArrayRef({1}));
}
