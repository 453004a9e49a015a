#pragma once

#include <c10/util/BFloat16.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "csrc/cpu/instruction_set.h"
#include "csrc/kernels/host_device.h"

/// Loops over one row, written so that the compiler turns them into vector code.
namespace bov::ops::cpu {

/// Rows of `width` elements below which a second thread costs more than it helps.
inline int64_t rows_per_task(int64_t width) {
  constexpr int64_t kElementsPerTask = 32768;
  return std::max<int64_t>(1, kElementsPerTask / std::max<int64_t>(1, width));
}

/// kernels::element_cast without branches for bfloat16, which vectorises.
template <typename To, typename From>
BOV_ALWAYS_INLINE To element_cast(From x) {
  if constexpr (std::is_same_v<To, c10::BFloat16> && !std::is_same_v<From, c10::BFloat16>) {
    const float value = static_cast<float>(x);
    const auto bits = std::bit_cast<uint32_t>(value);
    // Round to nearest, ties to even; a NaN becomes the quiet NaN that c10 makes.
    const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const uint32_t not_a_number = (bits & 0x7fffffffu) > 0x7f800000u ? 0xffffffffu : 0u;
    return c10::BFloat16(static_cast<uint16_t>((rounded & ~not_a_number) | (0x7fc0u & not_a_number)),
                         c10::BFloat16::from_bits());
  } else if constexpr (std::is_same_v<From, c10::BFloat16> && !std::is_same_v<To, c10::BFloat16>) {
    return static_cast<To>(std::bit_cast<float>(static_cast<uint32_t>(x.x) << 16));
  } else {
    return kernels::element_cast<To>(x);
  }
}

/// out = scale * in.
template <typename Compute, typename In, typename Out>
BOV_ALWAYS_INLINE void scale_row(const In* __restrict in, Compute scale, Out* __restrict out, int64_t width) {
  for (int64_t i = 0; i < width; ++i) {
    out[i] = element_cast<Out>(scale * element_cast<Compute>(in[i]));
  }
}

/// Asks for a piece of memory that is read soon: hardware prefetchers do not follow jumps between rows.
template <int64_t Count, typename T>
BOV_ALWAYS_INLINE void prefetch(const T* from) {
  constexpr int64_t kLine = 64;
  for (int64_t byte = 0; byte < Count * static_cast<int64_t>(sizeof(T)); byte += kLine) {
    __builtin_prefetch(reinterpret_cast<const char*>(from) + byte);
  }
}

/// Copies past the caches to `to`, which lies on a border of kStreamAlignment bytes: a cache would first read what is
/// about to be overwritten. stream_fence() makes it visible to other threads.
inline constexpr int64_t kStreamAlignment = 16;

template <int64_t Count, typename T>
BOV_ALWAYS_INLINE void stream(const T* from, T* to) {
#if defined(__SSE2__)
  static_assert(Count * sizeof(T) % kStreamAlignment == 0);
  for (int64_t i = 0; i < Count; i += kStreamAlignment / static_cast<int64_t>(sizeof(T))) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm_load_si128(reinterpret_cast<const __m128i*>(from + i)));
  }
#else
  std::copy_n(from, Count, to);
#endif
}

inline void stream_fence() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

/// sum = rows[0] + rows[1] + ... if `Start`, else sum = sum + rows[0] + ..., added from left to right;
/// meanwhile asks for the rows `next`, which are summed after these.
template <int Rows, bool Start, typename Compute, typename In>
BOV_ALWAYS_INLINE void add_rows(const In* const* rows,
                                const In* const* next,
                                Compute* __restrict sum,
                                int64_t width) {
  const auto add_column = [&](int64_t i) __attribute__((always_inline)) {
    Compute value = Start ? element_cast<Compute>(rows[0][i]) : sum[i];
    for (int r = Start ? 1 : 0; r < Rows; ++r) {
      value += element_cast<Compute>(rows[r][i]);
    }
    return value;
  };
  constexpr int64_t kColumns = 16;  // at most one cache line of a row
  int64_t i = 0;
  for (; i + kColumns <= width; i += kColumns) {
    for (int r = 0; r < Rows; ++r) {
      __builtin_prefetch(next[r] + i);
    }
    Compute values[kColumns];
    for (int64_t j = 0; j < kColumns; ++j) {
      values[j] = add_column(i + j);
    }
    for (int64_t j = 0; j < kColumns; ++j) {
      sum[i + j] = values[j];
    }
  }
  for (; i < width; ++i) {
    sum[i] = add_column(i);
  }
}

/// Inner product in float64, in an order that depends on nothing but the width.
template <typename A, typename B>
BOV_ALWAYS_INLINE double dot_row(const A* __restrict a, const B* __restrict b, int64_t width) {
  constexpr int64_t kLanes = 16;
  double lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= width; i += kLanes) {
    for (int64_t j = 0; j < kLanes; ++j) {
      lanes[j] += element_cast<double>(a[i + j]) * element_cast<double>(b[i + j]);
    }
  }
  double sum = 0.0;
  for (; i < width; ++i) {
    sum += element_cast<double>(a[i]) * element_cast<double>(b[i]);
  }
  for (const double lane : lanes) {
    sum += lane;
  }
  return sum;
}

}  // namespace bov::ops::cpu
