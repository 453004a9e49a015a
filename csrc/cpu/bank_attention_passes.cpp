#include "csrc/cpu/bank_attention_passes.h"

#include "csrc/cpu/bank_attention_rows.h"
#include "csrc/cpu/dispatch_value_type.h"

namespace bov::ops::cpu {
namespace {

/// float64 is the precision of tests, so it is compiled for the oldest processor alone.
template <typename Loop, typename Compute, typename... Args>
void run_loop(const Args&... args) {
  if constexpr (std::is_same_v<Compute, double>) {
    Loop::template run<16>(args...);
  } else {
    run_lanes<Loop>(args...);
  }
}

/// Calls `body` with a zero of the C++ type of `type`; float64 rows are read in float64 alone.
template <typename Compute, typename Body>
void dispatch_stored_type(at::ScalarType type, const Body& body) {
  if (type == at::kChar) {
    return body(int8_t{});
  }
  dispatch_value_type(type, [&](auto zero) {
    if constexpr (std::is_same_v<decltype(zero), double> && std::is_same_v<Compute, float>) {
      TORCH_CHECK(false, "bank_attention: float64 rows are not read in float32");
    } else {
      body(zero);
    }
  });
}

}  // namespace

template <typename Compute>
void BankPasses<Compute>::reorder(at::ScalarType type,
                                  const Compute* in,
                                  int64_t rows,
                                  int64_t width,
                                  bool back,
                                  Compute scale,
                                  Compute* out) {
  dispatch_stored_type<Compute>(type, [&](auto zero) {
    run_loop<ReorderRows<decltype(zero), Compute>, Compute>(in, rows, width, back, scale, out);
  });
}

template <typename Compute>
void BankPasses<Compute>::score(const QueryGroups& shape,
                                const StoredRows& keys,
                                int64_t begin,
                                int64_t count,
                                const Compute* queries,
                                Compute* scores) {
  dispatch_stored_type<Compute>(keys.type, [&](auto zero) {
    using Loop = ScoreSlots<decltype(zero), Compute>;
    if constexpr (!std::is_same_v<decltype(zero), int8_t>) {
      run_loop<Loop, Compute>(typename Loop::Problem{
          shape, static_cast<const decltype(zero)*>(keys.data) + begin * keys.row_stride, keys.row_stride,
          keys.head_stride, count, queries, scores});
    }
  });
}

template <typename Compute>
void BankPasses<Compute>::largest(const Compute* scores, int64_t count, int64_t padded, Compute* largest) {
  run_loop<MaxOfScores<Compute>, Compute>(scores, count, padded, largest);
}

template <typename Compute>
void BankPasses<Compute>::weigh(const typename WeighSlots<Compute>::Problem& problem) {
  run_loop<WeighSlots<Compute>, Compute>(problem);
}

template <typename Compute>
void BankPasses<Compute>::add_rows(const QueryGroups& shape,
                                   const StoredRows& table,
                                   const int32_t* ids,
                                   const Compute* weights,
                                   int64_t count,
                                   Compute* out) {
  dispatch_stored_type<Compute>(table.type, [&](auto zero) {
    using Loop = AddTableRows<decltype(zero), Compute>;
    run_loop<Loop, Compute>(typename Loop::Problem{shape, static_cast<const decltype(zero)*>(table.data),
                                                   table.row_stride, count, ids, weights, out});
  });
}

template struct BankPasses<float>;
template struct BankPasses<double>;

}  // namespace bov::ops::cpu
