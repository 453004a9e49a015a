#include <ATen/ATen.h>

#include <cmath>
#include <limits>
#include <vector>

#include "csrc/cpu/bank_attention_rows.h"
#include "csrc/cpu/bank_attention_scores.h"
#include "support/catch.h"
#include "support/tensor_compare.h"

// The vector loops of bank_attention for every register width that this processor has, not the widest alone.

namespace {

using namespace bov::ops::cpu;
using bov::testing::relative_error;
using bov::testing::unit_roundoff;

std::vector<int> register_bytes() {
  std::vector<int> widths = {16};
  if (instruction_set() >= InstructionSet::avx2) widths.push_back(32);
  if (instruction_set() >= InstructionSet::avx512) widths.push_back(64);
  return widths;
}

template <typename Loop, typename... Args>
void run_at(int bytes, const Args&... args) {
#if defined(__x86_64__)
  if (bytes == 64) return run_lanes_avx512<Loop>(args...);
  if (bytes == 32) return run_lanes_avx2<Loop>(args...);
#endif
  Loop::template run<16>(args...);
}

struct ExpAll {
  template <int Bytes>
  BOV_ALWAYS_INLINE static void run(float* x, int64_t count) {
    for (int64_t i = 0; i < count; i += kLanes<float, Bytes>) {
      Lanes<float, kLanes<float, Bytes>> lanes;
      load_lanes(x + i, lanes);
      exp_lanes<kLanes<float, Bytes>>(lanes);
      store_lanes(x + i, lanes);
    }
  }
};

/// Scores and weighted sums of rows of type T against float64.
template <typename T>
void check_loops(int bytes, const at::Tensor& stored, const QueryGroups& shape) {
  const int64_t count = stored.size(0);
  const T* data = stored.const_data_ptr<T>();
  const at::Tensor exact = stored.to(at::kDouble).view({count, shape.heads, 1, shape.width});
  const at::Tensor queries = at::randn({shape.heads, shape.group, shape.width});
  at::Tensor ordered = at::empty_like(queries);
  run_at<ReorderRows<T, float>>(bytes, queries.const_data_ptr<float>(), shape.rows, shape.width, false, 0.5f,
                                ordered.mutable_data_ptr<float>());
  at::Tensor back = at::empty_like(queries);
  run_at<ReorderRows<T, float>>(bytes, ordered.const_data_ptr<float>(), shape.rows, shape.width, true, 2.0f,
                                back.mutable_data_ptr<float>());
  CHECK(at::equal(back, queries));

  // Sums of up to 130 float32 products.
  const double bound = 20 * unit_roundoff(at::kFloat);
  at::Tensor scores = at::empty({count, shape.padded});
  if constexpr (!std::is_same_v<T, int8_t>) {
    run_at<ScoreSlots<T, float>>(
        bytes, typename ScoreSlots<T, float>::Problem{shape, data, stored.stride(0), shape.width, count,
                                                      ordered.const_data_ptr<float>(),
                                                      scores.mutable_data_ptr<float>()});
    const at::Tensor expected = (exact * queries.to(at::kDouble) * 0.5).sum(-1).view({count, shape.rows});
    CHECK(relative_error(scores.slice(1, 0, shape.rows), expected) < bound);
    CHECK(at::equal(scores.slice(1, shape.rows), at::zeros({count, shape.padded - shape.rows})));
  }

  const at::Tensor weights = at::rand({count, shape.padded});
  const at::Tensor ids = at::randint(count, {count}, at::kInt);
  at::Tensor sums = at::empty_like(queries);
  run_at<AddTableRows<T, float>>(bytes,
                                 typename AddTableRows<T, float>::Problem{
                                     shape, data, stored.stride(0), count, ids.const_data_ptr<int32_t>(),
                                     weights.const_data_ptr<float>(), sums.mutable_data_ptr<float>()});
  run_at<ReorderRows<T, float>>(bytes, sums.const_data_ptr<float>(), shape.rows, shape.width, true, 1.0f,
                                back.mutable_data_ptr<float>());
  const at::Tensor factors =
      weights.slice(1, 0, shape.rows).to(at::kDouble).view({count, shape.heads, shape.group, 1});
  CHECK(relative_error(back, (factors * exact.index_select(0, ids)).sum(0)) < bound);
}

}  // namespace

TEST_CASE("the vector loops agree with float64 in every register width and dtype") {
  at::manual_seed(1);
  for (const int bytes : register_bytes()) {
    for (const int64_t group : {1, 2, 5}) {
      for (const int64_t width : {1, 5, 16, 33, 64, 130}) {
        INFO("registers of " << bytes << " bytes, group " << group << ", width " << width);
        const int64_t heads = 2;
        const QueryGroups shape{heads, group, width, heads * group, (heads * group + 7) / 8 * 8};
        const at::Tensor rows = at::randn({11, heads * width});
        check_loops<float>(bytes, rows, shape);
        check_loops<c10::BFloat16>(bytes, rows.to(at::kBFloat16), shape);
        check_loops<c10::Half>(bytes, rows.to(at::kHalf), shape);
        check_loops<int8_t>(bytes, (rows * 30).to(at::kChar), shape);
      }
    }
  }
}

TEST_CASE("exp_lanes is e^x to float32's precision, 0 for what is tiny, and NaN for NaN") {
  const at::Tensor x = -at::arange(0.0, 87.0, 1.0 / 1024, at::kDouble).to(at::kFloat);
  const at::Tensor whole = x.slice(0, 0, x.numel() / 16 * 16).clone();
  const float inf = std::numeric_limits<float>::infinity();
  const at::Tensor special =
      at::tensor({0.0f, -87.5f, -1000.0f, -inf, std::nanf("")}, at::kFloat).repeat({16});
  for (const int bytes : register_bytes()) {
    INFO("registers of " << bytes << " bytes");
    at::Tensor result = whole.clone();
    run_at<ExpAll>(bytes, result.mutable_data_ptr<float>(), result.numel());
    const at::Tensor expected = whole.to(at::kDouble).exp();
    // The polynomial's own error is below 2^-27; its roundings and those of the exponent's split add some units.
    CHECK(((result.to(at::kDouble) - expected) / expected).abs().max().item<double>() <
          4 * unit_roundoff(at::kFloat));
    at::Tensor edges = special.clone();
    run_at<ExpAll>(bytes, edges.mutable_data_ptr<float>(), edges.numel());
    edges = edges.view({16, 5})[3];
    CHECK(edges[0].item<float>() == 1.0f);
    CHECK(at::equal(edges.slice(0, 1, 4), at::zeros({3})));
    CHECK(edges[4].isnan().item<bool>());
  }
}
