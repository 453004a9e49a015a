#include <ATen/ATen.h>

#include <array>
#include <cmath>
#include <limits>
#include <tuple>
#include <vector>

#include "csrc/kernels/value_gather_threads.h"
#include "csrc/reference/value_gather_reference.h"
#include "csrc/value_gather.h"
#include "kernels/host_executor.h"
#include "support/catch.h"
#include "support/tensor_compare.h"

// The CUDA kernels of value_gather, run whole on the host at the sizes of a launch.

namespace {

using namespace bov::kernels;
using bov::ops::TokenIndex;
using bov::testing::bitwise_equal;
using bov::testing::HostExecutor;
using bov::testing::max_abs_error;
using bov::testing::relative_error;
namespace reference = bov::ops::reference;

template <typename T>
constexpr at::ScalarType kType = c10::CppTypeToScalarType<T>::value;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

HostExecutor& executor() {
  static HostExecutor executor;
  return executor;
}

/// A copy of a tensor between two stretches of NaN, so that it shows where something else was read or written.
class Fenced {
 public:
  explicit Fenced(const at::Tensor& tensor)
      : all_(at::full({tensor.numel() + 2 * kWidth}, kNan, tensor.options())),
        inner_(all_.slice(0, kWidth, kWidth + tensor.numel()).view(tensor.sizes())) {
    inner_.copy_(tensor);
  }

  const at::Tensor& inner() const { return inner_; }
  template <typename T>
  T* data() {
    return inner_.mutable_data_ptr<T>();
  }
  bool intact() const {
    return all_.slice(0, 0, kWidth).isnan().all().item<bool>() &&
           all_.slice(0, all_.numel() - kWidth).isnan().all().item<bool>();
  }

 private:
  static constexpr int64_t kWidth = 64;  ///< keeps the alignment of packs
  at::Tensor all_, inner_;
};

/// Two layers: `table` with `scale`, and twice the table without one.
template <int V, typename Table, typename Out>
std::array<at::Tensor, 2> run_gather(
    const at::Tensor& table, const at::Tensor& ids, double scale, int64_t max_blocks, IdReport& report) {
  using Compute = ComputeType<Table, Out>;
  const int64_t width = table.size(1);
  const at::Tensor twice = at::cat({table * 2, table}, 1);  // rows are strided
  // A value no result has, so that an element that no thread writes is seen.
  std::array<at::Tensor, 2> out;
  out.fill(at::full({ids.numel(), width}, -12345.0, kType<Out>));
  out[1] = out[0].clone();
  const Compute factor = scale;
  executor().launch(GatherKernel<V, Table, Out>{
      gather_grid(ids.numel(), width / V, max_blocks),
      2,
      {{table.const_data_ptr<Table>(), table.stride(0), &factor, out[0].mutable_data_ptr<Out>()},
       {twice.const_data_ptr<Table>(), twice.stride(0), nullptr, out[1].mutable_data_ptr<Out>()}},
      ids.const_data_ptr<int64_t>(),
      ids.numel(),
      table.size(0),
      width,
      &report,
      std::numeric_limits<Compute>::quiet_NaN()});
  return out;
}

template <int V, typename Table, typename Out>
void check_gather(int64_t positions, int64_t width, int64_t max_blocks) {
  INFO("V " << V << ", positions " << positions << ", width " << width << ", blocks at most " << max_blocks);
  const at::Tensor table = at::randn({17, width}).to(kType<Table>);
  const at::Tensor ids = at::randint(17, {positions}, at::kLong);
  IdReport report{};
  const auto out = run_gather<V, Table, Out>(table, ids, 1.37, max_blocks, report);
  const at::Tensor scale = at::full({}, 1.37, kType<ComputeType<Table, Out>>);
  CHECK(bitwise_equal(out[0], reference::value_gather(table, ids, scale, kType<Out>)));
  CHECK(bitwise_equal(out[1], reference::value_gather(table * 2, ids, std::nullopt, kType<Out>)));
  CHECK(report.found == 0);
}

struct ScatterResult {
  at::Tensor table_grad;
  double scale_grad;
  bool inside;  ///< nothing beside the tensors was written
};

/// The backward kernels. Partial sums start as `initial`: a NaN shows where one is read without having been written.
template <int V, typename Grad, typename Table>
ScatterResult run_scatter(const at::Tensor& grad,
                          const at::Tensor& table,
                          const TokenIndex& index,
                          double scale,
                          double initial = kNan) {
  using Compute = ComputeType<Table, Grad>;
  const int64_t width = table.size(1);
  const ChunkGrid grid = chunk_grid(index.positions.numel(), width / V);
  const auto partial = [&](at::IntArrayRef sizes) {
    return Fenced(at::full(sizes, initial, kType<Compute>));
  };
  Fenced upstream(grad), rows(table), table_grad(at::zeros_like(table));
  Fenced heads = partial({grid.chunks, width}), tails = partial({grid.chunks, width});
  Fenced partials = partial({2 * grid.chunks * grid.vectors});
  const Compute factor = scale;
  const ScatterProblem<Grad, Table> problem{
      upstream.data<Grad>(),
      width,
      rows.data<Table>(),
      width,
      table.size(0),
      width,
      {index.positions.const_data_ptr<int32_t>(), index.offsets.const_data_ptr<int32_t>(),
       index.distinct.const_data_ptr<int32_t>(), index.count.const_data_ptr<int32_t>(),
       index.positions.numel(), index.distinct.numel()},
      &factor,
      heads.data<Compute>(),
      tails.data<Compute>(),
      table_grad.data<Table>(),
      partials.data<Compute>()};
  executor().launch(ScatterKernel<ScatterStep::sum, V, Grad, Table>{problem, grid});
  executor().launch(ScatterKernel<ScatterStep::combine, V, Grad, Table>{problem, grid});
  return {table_grad.inner(), partials.inner().to(at::kDouble).sum().item<double>(),
          heads.intact() && tails.intact() && table_grad.intact() && partials.intact()};
}

template <int V, typename Grad, typename Table>
void check_scatter(const at::Tensor& ids, int64_t rows, int64_t width) {
  INFO("V " << V << ", positions " << ids.numel() << ", rows " << rows << ", width " << width);
  const at::Tensor table = at::randn({rows, width}).to(kType<Table>);
  const at::Tensor grad = at::randn({ids.numel(), width}).to(kType<Grad>);
  const auto [table_grad, scale_grad, inside] =
      run_scatter<V, Grad, Table>(grad, table, bov::ops::token_index(ids, rows), 1.37);
  CHECK(inside);

  const at::Tensor scale = at::full({}, 1.37, kType<ComputeType<Table, Grad>>).requires_grad_(true);
  const at::Tensor leaf = table.clone().requires_grad_(true);
  const auto expected =
      torch::autograd::grad({bov::ops::value_gather(leaf, ids, scale, kType<Grad>)}, {leaf, scale}, {grad});
  // The CPU kernel cuts and orders its sums the same way, so that the table's gradient is equal to the last
  // bit.
  CHECK(max_abs_error(table_grad, expected[0]) == 0.0);
  // The scale's is summed in another order, in float32: some thousand terms.
  CHECK(relative_error(at::full({}, scale_grad, at::kDouble), expected[1]) < 1e-4);
}

}  // namespace

TEST_CASE("the gather kernel writes every element once, for odd sizes and few blocks") {
  at::manual_seed(1);
  for (const int64_t positions : {1, 33, 301}) {
    for (const int64_t max_blocks : {3, 1 << 20}) {
      for (const int64_t width : {1, 3, 33, 70}) {
        check_gather<1, float, float>(positions, width, max_blocks);
      }
      for (const int64_t width : {4, 132}) {
        check_gather<4, float, float>(positions, width, max_blocks);
        check_gather<4, float, c10::BFloat16>(positions, width, max_blocks);
        check_gather<2, double, float>(positions, width, max_blocks);
      }
      check_gather<8, c10::BFloat16, c10::BFloat16>(positions, 264, max_blocks);
      check_gather<8, c10::Half, c10::Half>(positions, 8, max_blocks);
    }
  }
}

TEST_CASE("the gather kernel reports an id outside the table and reads nothing there") {
  const at::Tensor table = at::randn({5, 8});
  for (const int64_t bad :
       {int64_t{5}, int64_t{-1}, std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()}) {
    const at::Tensor ids = at::tensor({int64_t{4}, bad, int64_t{0}}, at::kLong);
    IdReport report{};
    const auto out = run_gather<4, float, float>(table, ids, 1.0, 1 << 20, report);
    CHECK(at::equal(out[0][0], table[4]));
    CHECK(out[0][1].isnan().all().item<bool>());
    CHECK(at::equal(out[0][2], table[0]));
    CHECK(out[1][1].isnan().all().item<bool>());
    CHECK(report.found == 1);
    CHECK(report.id == bad);
    CHECK(report.rows == 5);
  }
}

TEST_CASE("chunks hold 32 positions at least, and there are about a thousand of them at most") {
  CHECK(chunk_length(1) == 32);
  CHECK(chunk_length(32768) == 32);
  CHECK(chunk_length(32769) == 64);
  CHECK(chunk_length(524288) == 512);
  CHECK(ceil_div(524289, chunk_length(524289)) == 513);
}

TEST_CASE("the scatter kernels equal the CPU kernel, for segments that meet chunk borders in every way") {
  at::manual_seed(2);
  const auto runs = [](std::vector<int64_t> lengths) {
    std::vector<at::Tensor> parts;
    for (size_t id = 0; id < lengths.size(); ++id) {
      parts.push_back(at::full({lengths[id]}, static_cast<int64_t>(id), at::kLong));
    }
    const at::Tensor sorted = at::cat(parts);
    return sorted.index({at::randperm(sorted.numel(), at::kLong)}).contiguous();
  };
  // Chunks are 32 long: segments that fill one, end or begin on a border, span several, or share one with
  // others.
  for (const auto& lengths : std::vector<std::vector<int64_t>>{{1},
                                                               {32},
                                                               {33},
                                                               {31, 1},
                                                               {32, 32},
                                                               {16, 32, 16},
                                                               {0, 5, 0, 100, 0, 1, 1, 1, 64, 0},
                                                               {200},
                                                               {1, 64, 31, 7}}) {
    const auto rows = static_cast<int64_t>(lengths.size());
    check_scatter<1, float, float>(runs(lengths), rows, 5);
    check_scatter<4, float, float>(runs(lengths), rows, 12);
    check_scatter<2, double, double>(runs(lengths), rows, 6);
    check_scatter<8, c10::BFloat16, c10::BFloat16>(runs(lengths), rows, 16);
    check_scatter<4, c10::BFloat16, float>(runs(lengths), rows, 260);
  }
  for (const int64_t n : {2, 63, 1000}) {
    check_scatter<1, float, float>(at::randint(40, {n}, at::kLong), 40, 3);
    check_scatter<8, c10::Half, c10::Half>(at::randint(3, {n}, at::kLong), 40, 8);
  }
  // The largest blocks, and a second tile of columns that does not fill one.
  check_scatter<1, float, float>(at::randint(7, {100}, at::kLong), 7, 300);
}

TEST_CASE("the scatter kernels leave out what the index leaves out, and rows that the table does not have") {
  at::manual_seed(3);
  const at::Tensor table = at::randn({6, 4});
  const at::Tensor ids = at::randint(6, {150}, at::kLong);
  const at::Tensor grad = at::randn({150, 4});
  // The last ten sorted places belong to ids outside the table; row 5 does not exist in a table of five rows.
  TokenIndex index = bov::ops::token_index(ids, 6);
  index.offsets.clamp_max_(140);
  for (const int64_t rows : {6, 5}) {
    const auto [actual, scale_grad, inside] =
        run_scatter<4, float, float>(grad, table.slice(0, 0, rows), index, 2.0);
    CHECK(inside);
    const at::Tensor kept = index.positions.slice(0, 0, 140).to(at::kLong);
    const at::Tensor expected = at::zeros({6, 4}).index_add(0, ids.index({kept}), grad.index({kept})) * 2.0;
    // Sums of some twenty float32 numbers in another order.
    CHECK(relative_error(actual, expected.slice(0, 0, rows)) < 1e-6);
    CHECK(std::isfinite(scale_grad));
  }
}

TEST_CASE("the scatter kernels sum by the index that they are given, be it that of other ids") {
  at::manual_seed(4);
  const at::Tensor other = at::randint(40, {150}, at::kLong);
  const at::Tensor grad = at::randn({150, 4});
  const auto [actual, scale_grad, inside] =
      run_scatter<4, float, float>(grad, at::randn({40, 4}), bov::ops::token_index(other, 40), 1.0);
  // Sums of a few float32 numbers in another order.
  CHECK(relative_error(actual, at::zeros({40, 4}).index_add(0, other, grad)) < 1e-6);
  CHECK(std::isfinite(scale_grad));
  CHECK(inside);
}

TEST_CASE("the scatter kernels read and write inside their tensors, whatever an index says") {
  at::manual_seed(5);
  const int64_t n = 150;
  const at::Tensor grad = at::randn({n, 4});
  constexpr int kLeast = std::numeric_limits<int32_t>::min(), kMost = std::numeric_limits<int32_t>::max();
  const at::Tensor values = at::tensor({kLeast, -1, 0, 1, 17, 39, 40, 149, 150, 151, kMost}, at::kInt);
  const auto wild = [&](const at::Tensor& like) {
    return values.index_select(0, at::randint(values.numel(), {like.numel()}, at::kLong));
  };
  for (const int64_t rows : {40, 0}) {
    const at::Tensor table = at::randn({rows, 4});
    TokenIndex good{at::arange(n, at::kInt), at::zeros({rows + 1}, at::kInt), at::full({rows}, 0, at::kInt),
                    at::zeros({1}, at::kInt)};
    if (rows > 0) {
      good = bov::ops::token_index(at::randint(rows, {n}, at::kLong), rows);
    }
    const auto check = [&](const TokenIndex& index) {
      const auto [table_grad, scale_grad, inside] =
          run_scatter<2, float, float>(grad, table, index, 1.5, 0.0);
      CHECK(inside);
      // What lies beside the gradient and the table is NaN, and would show.
      CHECK(table_grad.isfinite().all().item<bool>());
      CHECK(std::isfinite(scale_grad));
    };
    for (const int count : {kLeast, -1, 0, 1, 40, 41, kMost}) {
      INFO("rows " << rows << ", count " << count);
      TokenIndex index = good;
      index.count = at::full({1}, count, at::kInt);
      check(index);
      index.offsets = at::full_like(good.offsets, n);
      check(index);
      index.offsets = at::arange(n, n - rows - 1, -1, at::kInt);
      check(index);
    }
    for (int round = 0; round < 20; ++round) {
      INFO("rows " << rows << ", round " << round);
      for (const auto part :
           {&TokenIndex::positions, &TokenIndex::offsets, &TokenIndex::distinct, &TokenIndex::count}) {
        TokenIndex index = good;
        index.*part = wild(good.*part);
        check(index);
      }
      check({wild(good.positions), wild(good.offsets), wild(good.distinct), good.count});
    }
  }
}
