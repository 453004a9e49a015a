#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "csrc/kernels/bank_attention_entries.h"
#include "csrc/kernels/bank_attention_rows.h"
#include "csrc/kernels/bank_attention_scores.h"
#include "kernels/host_executor.h"
#include "ops/bank_attention_cases.h"
#include "support/catch.h"
#include "support/tensor_compare.h"

// The CUDA kernels of bank_attention, run whole on the host at the sizes of a launch.

namespace {

using namespace bov::kernels;
using bov::testing::bank_case;
using bov::testing::BankCase;
using bov::testing::HostExecutor;
using bov::testing::relative_error;
using bov::testing::unit_roundoff;
using Thread = HostExecutor::Thread;

template <typename T>
constexpr at::ScalarType kType = c10::CppTypeToScalarType<T>::value;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

BankShape shape_of(const BankCase& c) {
  return {c.q.size(0), c.q.size(1),    c.q.size(2), c.keys.size(2),
          c.q.size(3), c.keys.size(1), c.left,      c.table.size(0)};
}

BankIds ids_of(const BankCase& c) {
  return {c.ids.const_data_ptr(), static_cast<int>(c.ids.element_size()), c.ids.scalar_type() == at::kShort,
          c.ids.stride(0), c.ids.stride(1)};
}

HostExecutor& executor() {
  static HostExecutor executor;
  return executor;
}

/// What token_index makes of the sort keys on a device.
struct PieceIndex {
  std::vector<int32_t> order, offsets, distinct, segment_of_sequence;
};

PieceIndex index_pieces(const BankShape& shape, const BankIds& ids, const int64_t* lengths) {
  PieceIndex index;
  const int64_t positions = shape.batch * shape.capacity();
  std::vector<int64_t> keys(positions);
  executor().launch(BankKeyKernel{shape, ids, lengths, keys.data()});
  index.order.resize(positions);
  std::iota(index.order.begin(), index.order.end(), 0);
  std::stable_sort(index.order.begin(), index.order.end(), [&](int a, int b) { return keys[a] < keys[b]; });
  for (int64_t k = 0; k < positions; ++k) {
    if (k == 0 || keys[index.order[k]] != keys[index.order[k - 1]]) {
      index.offsets.push_back(static_cast<int32_t>(k));
      index.distinct.push_back(static_cast<int32_t>(keys[index.order[k]]));
    }
  }
  index.offsets.push_back(static_cast<int32_t>(positions));
  const auto count = static_cast<int32_t>(index.distinct.size());
  index.segment_of_sequence.resize(shape.batch + 1);
  executor().launch(BankSegmentKernel{shape.batch, shape.table_rows, index.distinct.data(), &count,
                                      index.segment_of_sequence.data()});
  return index;
}

/// The kernels of one call, in the order and with the buffers of csrc/kernels/bank_attention.cu. Buffers start as NaN,
/// so that what is read without having been written shows.
template <int V, typename Key, typename Table, typename Compute>
class Walk {
 public:
  explicit Walk(const BankCase& c)
      : c_(c), shape_(shape_of(c)), lengths_(c.lengths.const_data_ptr<int64_t>()) {}

  at::Tensor run(bool aggregated) {
    const at::Tensor queries = c_.q.to(kType<Compute>).contiguous();
    scores_ = nan({shape_.batch, shape_.capacity(), shape_.rows()});
    largest_ = nan({shape_.batch, shape_.splits(), shape_.rows()});
    executor().launch(BankScoreKernel<V, Key, Compute>{
        shape_, lengths_, c_.keys.const_data_ptr<Key>(), c_.keys.stride(0), c_.keys.stride(1),
        c_.keys.stride(2), queries.const_data_ptr<Compute>(),
        static_cast<Compute>(1.0 / std::sqrt(double(shape_.width))), data(scores_), data(largest_), kLowest});
    if (!aggregated) {
      return add_rows(SlotEntries<Compute>{shape_, lengths_, ids_of(c_), data(scores_), data(largest_)});
    }
    at::Tensor of_sequence = nan({shape_.batch, shape_.rows()});
    executor().launch(
        BankLargestKernel<Compute>{shape_, lengths_, data(largest_), data(of_sequence), kLowest});
    const PieceIndex index = index_pieces(shape_, ids_of(c_), lengths_);
    at::Tensor slot_weights = nan({shape_.batch * shape_.capacity(), shape_.rows()});
    at::Tensor piece_weights = nan({shape_.batch * shape_.capacity(), shape_.rows()});
    return add_rows(PieceEntries<Compute>{shape_, lengths_, ids_of(c_), index.order.data(),
                                          index.offsets.data(), index.distinct.data(),
                                          index.segment_of_sequence.data(), data(scores_), data(of_sequence),
                                          data(slot_weights), data(piece_weights)});
  }

  IdReport report{};

 private:
  static constexpr Compute kLowest = std::numeric_limits<Compute>::lowest();

  static at::Tensor nan(at::IntArrayRef sizes) { return at::full(sizes, kNan, kType<Compute>); }
  static Compute* data(at::Tensor& tensor) { return tensor.mutable_data_ptr<Compute>(); }

  template <typename Entries>
  at::Tensor add_rows(const Entries& entries) {
    at::Tensor sums = nan({shape_.batch, shape_.splits(), shape_.rows()});
    at::Tensor partials = nan({shape_.batch, shape_.splits(), shape_.rows(), shape_.width});
    executor().launch(BankRowKernel<V, Entries, Table, Compute>{
        entries, c_.table.const_data_ptr<Table>(), c_.table.stride(0),
        c_.row_scale ? c_.row_scale->const_data_ptr<float>() : nullptr, data(sums), data(partials), &report,
        static_cast<Compute>(kNan)});
    const Compute scale = c_.scale ? c_.scale->to(kType<Compute>).template item<Compute>() : Compute(1);
    at::Tensor out = at::full(c_.q.sizes(), -12345.0, kType<Compute>);
    executor().launch(BankCombineKernel<Entries, Compute, Compute>{
        entries, data(sums), data(partials), &scale, data(out), kLowest, static_cast<Compute>(kNan)});
    return out;
  }

  const BankCase& c_;
  BankShape shape_;
  const int64_t* lengths_;
  at::Tensor scores_, largest_;
};

/// Both algorithms against the reference; `bound` is relative.
template <int V, typename Key, typename Table, typename Compute>
void check(const BankCase& c, double bound) {
  for (const bool aggregated : {false, true}) {
    INFO("aggregated " << aggregated << ", V " << V);
    Walk<V, Key, Table, Compute> walk(c);
    const at::Tensor out = walk.run(aggregated);
    CHECK(relative_error(out, c.exact_reference()) < bound);
    CHECK(walk.report.found == 0);
  }
}

constexpr double kDoubleError = 1e-14;  // some hundred float64 terms in another order
const double kFloatError = 30 * unit_roundoff(at::kFloat);

}  // namespace

TEST_CASE("bank_attention's kernels equal the reference for odd sizes, grouped heads and several queries") {
  at::manual_seed(1);
  for (const int64_t queries : {1, 3}) {
    for (const int64_t group : {1, 5}) {
      for (const auto& [slots, width] : {std::pair(5, 1), std::pair(37, 40), std::pair(140, 7)}) {
        INFO("queries " << queries << ", group " << group << ", slots " << slots << ", width " << width);
        BankCase c = bank_case(
            {.queries = queries, .heads = 2 * group, .key_heads = 2, .width = width, .slots = slots});
        c.scale = at::full({1}, -1.7, at::kDouble);
        check<1, double, double, double>(c, kDoubleError);
        c.left = 129;
        check<1, double, double, double>(c, kDoubleError);
      }
    }
  }
}

TEST_CASE("bank_attention's kernels load packs of every dtype") {
  at::manual_seed(2);
  const auto make = [](at::ScalarType keys, at::ScalarType table) {
    BankCase c = bank_case({.queries = 2, .heads = 6, .key_heads = 3, .width = 24, .slots = 150}, at::kFloat);
    c.keys = c.keys.to(keys);
    c.table = c.table.to(table);
    return c;
  };
  check<4, float, float, float>(make(at::kFloat, at::kFloat), kFloatError);
  check<8, c10::BFloat16, c10::BFloat16, float>(make(at::kBFloat16, at::kBFloat16), kFloatError);
  check<8, c10::Half, c10::Half, float>(make(at::kHalf, at::kHalf), kFloatError);
  BankCase c = make(at::kBFloat16, at::kFloat);
  c.table = at::randint(-127, 128, c.table.sizes(), at::kLong).to(at::kChar);
  c.row_scale = at::rand({c.table.size(0)}, at::kFloat) * 0.01;
  check<8, c10::BFloat16, int8_t, float>(c, kFloatError);

  // More columns than the block has threads, and keys in the other layout.
  BankCase wide = bank_case({.heads = 5, .key_heads = 5, .width = 66, .slots = 140}, at::kFloat);
  wide.keys = wide.keys.transpose(1, 2).contiguous().transpose(1, 2);
  check<2, float, float, float>(wide, kFloatError);
}

TEST_CASE("bank_attention's kernels accept repeated ids, ids of every dtype and idle sequences") {
  at::manual_seed(3);
  BankCase c = bank_case({.batch = 3, .slots = 270, .rows = 200});
  const at::Tensor random = c.ids;
  for (const auto dtype : {at::kLong, at::kInt, at::kShort, at::kUInt16, at::kByte}) {
    c.ids = random.to(dtype);
    check<1, double, double, double>(c, kDoubleError);
  }
  c.ids = at::full({3, 270}, 199, at::kLong);
  check<1, double, double, double>(c, kDoubleError);
  c.ids = random;
  c.lengths[0] = 0;
  c.lengths[2] = 0;
  check<1, double, double, double>(c, kDoubleError);
}

TEST_CASE(
    "bank_attention's kernels make a sequence NaN whose length is out of range, and read nothing of it") {
  at::manual_seed(4);
  BankCase c = bank_case({.batch = 4, .queries = 2});
  const at::Tensor expected = c.reference();
  c.lengths[0] = 38;
  c.lengths[2] = 1;
  c.lengths[3] = -1;
  for (const bool aggregated : {false, true}) {
    const at::Tensor out = Walk<1, double, double, double>(c).run(aggregated);
    CHECK(relative_error(out[1], expected[1]) < kDoubleError);
    for (const int64_t b : {0, 2, 3}) {
      CHECK(out[b].isnan().all().item<bool>());
    }
  }
}

TEST_CASE("bank_attention's kernels report an id outside the table and make NaN of what sees it") {
  at::manual_seed(5);
  for (const int64_t bad : {int64_t{11}, int64_t{-1}, std::numeric_limits<int64_t>::max()}) {
    BankCase c = bank_case({.batch = 2, .slots = 200});
    const at::Tensor expected = c.reference();
    c.ids[1][40] = bad;
    for (const bool aggregated : {false, true}) {
      Walk<1, double, double, double> walk(c);
      const at::Tensor out = walk.run(aggregated);
      CHECK(relative_error(out[0], expected[0]) < kDoubleError);
      CHECK(out[1].isnan().all().item<bool>());
      CHECK(walk.report.found == 1);
      CHECK(walk.report.id == bad);
      CHECK(walk.report.rows == 11);
    }
    c.left = 10;  // nothing sees it
    Walk<1, double, double, double> walk(c);
    CHECK(relative_error(walk.run(false)[1], walk.run(true)[1]) < kDoubleError);
    CHECK(walk.report.found == 0);
  }
}

TEST_CASE("bank_attention's splits grow with the view, so that few are left to combine") {
  const auto splits = [](int64_t slots, int64_t left) {
    return BankShape{1, 1, 1, 1, 1, slots, left, 1}.splits();
  };
  CHECK(splits(512, 1000) == 4);
  CHECK(splits(1 << 20, 511) == 4);
  CHECK(splits(65536, 1 << 20) == 512);
  CHECK(splits(65537, 1 << 20) == 257);
  CHECK(splits(1 << 20, std::numeric_limits<int64_t>::max()) == 512);
}

TEST_CASE("the host executor runs barriers and shuffles, and finds threads that wait for each other") {
  HostExecutor executor;
  std::vector<int> seen(3 * 2 * 64, 0);
  executor.run({3, 2, 1, 64, 64 * sizeof(int)}, [&](const Thread& thread) {
    auto* shared = static_cast<int*>(thread.shared());
    shared[thread.index()] = thread.index();
    thread.sync();
    const int other = shared[63 - thread.index()];
    int sum = other;
    for (int mask = 16; mask > 0; mask /= 2) {
      sum += thread.shuffle_xor(sum, mask);
    }
    seen[(thread.block_y() * 3 + thread.block_x()) * 64 + thread.index()] = sum;
  });
  for (size_t i = 0; i < seen.size(); ++i) {
    CHECK(seen[i] == (i % 64 < 32 ? (32 + 63) * 16 : 31 * 16));
  }

  // Threads may end before a barrier, as on a device; but not all wait in one place here.
  int reached = 0;
  executor.run({1, 1, 1, 40}, [&](const Thread& thread) {
    if (thread.index() >= 3) {
      thread.sync();
      ++reached;
    }
  });
  CHECK(reached == 37);
  CHECK_THROWS_AS(executor.run({1, 1, 1, 64},
                               [](const Thread& thread) {
                                 thread.index() < 40 ? thread.sync() : void(thread.shuffle_xor(1, 1));
                               }),
                  std::logic_error);
  CHECK_THROWS_AS(executor.run({1, 1, 1, 20}, [](const Thread& thread) { thread.shuffle_xor(1, 16); }),
                  std::logic_error);
}
