#pragma once

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "csrc/cpu/exponential.h"
#include "csrc/cpu/row_math.h"

/// Short vectors of the compiler's own kind, for run_lanes. Where row_math.h leaves vectorisation to the compiler, loops
/// over these keep many vectors in registers by name.
/// Functions take vectors by reference: passing them by value would depend on the instruction set.
namespace bov::ops::cpu {

template <typename T, int L>
struct LanesOf {
  typedef T type __attribute__((vector_size(L * sizeof(T))));
};
/// `L` numbers of type T that are computed with together.
template <typename T, int L>
using Lanes = typename LanesOf<T, L>::type;

/// Numbers of type Compute in one register of `Bytes` bytes.
template <typename Compute, int Bytes>
constexpr int kLanes = Bytes / static_cast<int>(sizeof(Compute));

/// The float16 numbers whose bits are in `half`, by shifting exponents: 2^112 lies between the two biases.
template <int L>
BOV_ALWAYS_INLINE void widen_half(const Lanes<uint32_t, L>& half, Lanes<float, L>& out) {
  const Lanes<uint32_t, L> magnitude = half & 0x7fffu;
  Lanes<float, L> value;
  copy_bits(value, magnitude << 13);
  value *= 0x1p112f;
  Lanes<uint32_t, L> bits;
  copy_bits(bits, value);
  const auto infinite = (Lanes<uint32_t, L>)(magnitude >= 0x7c00u);
  copy_bits(out, bits | (infinite & 0x7f800000u) | ((half & 0x8000u) << 16));
}

/// Numbers of type In in a word of 32 bits. Short numbers are widened a word at a time, for shifting words is
/// cheaper than moving numbers between lanes; so part k of a vector of words has each word's number k.
template <typename In>
constexpr int kParts = sizeof(In) < 4 ? 4 / static_cast<int>(sizeof(In)) : 1;

/// parts[k][i] = in[i * kParts<In> + k], as float32.
template <int L, typename In>
BOV_ALWAYS_INLINE void load_parts(const In* in, Lanes<float, L> (&parts)[kParts<In>]) {
  if constexpr (std::is_same_v<In, float>) {
    std::memcpy(&parts[0], in, sizeof(parts[0]));
  } else if constexpr (std::is_same_v<In, int8_t>) {
    Lanes<int32_t, L> words;
    std::memcpy(&words, in, sizeof(words));
    for (int k = 0; k < 4; ++k) {
      parts[k] = __builtin_convertvector((words << (24 - 8 * k)) >> 24, Lanes<float, L>);
    }
  } else {
    Lanes<uint32_t, L> words;
    std::memcpy(&words, in, sizeof(words));
    if constexpr (std::is_same_v<In, c10::BFloat16>) {
      copy_bits(parts[0], words << 16);
      copy_bits(parts[1], words & 0xffff0000u);
    } else {
      static_assert(std::is_same_v<In, c10::Half>);
      widen_half<L>(words & 0xffffu, parts[0]);
      widen_half<L>(words >> 16, parts[1]);
    }
  }
}

/// The same as float64.
template <int L, typename In>
BOV_ALWAYS_INLINE void load_parts(const In* in, Lanes<double, L> (&parts)[kParts<In>]) {
  if constexpr (std::is_same_v<In, double>) {
    std::memcpy(&parts[0], in, sizeof(parts[0]));
  } else {
    Lanes<float, L> single[kParts<In>];
    load_parts<L>(in, single);
    for (int k = 0; k < kParts<In>; ++k) {
      parts[k] = __builtin_convertvector(single[k], Lanes<double, L>);
    }
  }
}

/// Place of element d of a row in the order in which load_parts meets the elements of a row of `In`; the end of
/// the row, which fills no vector, keeps its order.
template <int L, typename In>
BOV_ALWAYS_INLINE int64_t place_of(int64_t d, int64_t width) {
  constexpr int64_t kBlock = L * kParts<In>;
  const int64_t block = d / kBlock * kBlock;
  const int64_t i = d - block;
  return block + kBlock <= width ? block + i % kParts<In> * L + i / kParts<In> : d;
}

template <typename Vector, typename Compute>
BOV_ALWAYS_INLINE void load_lanes(const Compute* in, Vector& lanes) {
  std::memcpy(&lanes, in, sizeof(lanes));
}

template <typename Vector, typename Compute>
BOV_ALWAYS_INLINE void store_lanes(Compute* out, const Vector& lanes) {
  std::memcpy(out, &lanes, sizeof(lanes));
}

/// The sum of the lanes' halves, again and again until four lanes are left.
template <int L, typename Compute>
BOV_ALWAYS_INLINE void fold_to_four(const Lanes<Compute, L>& lanes, Lanes<Compute, 4>& out) {
  static_assert(L == 2 || L == 4 || L == 8 || L == 16);
  if constexpr (L == 16) {
    const Lanes<Compute, 8> half = __builtin_shufflevector(lanes, lanes, 0, 1, 2, 3, 4, 5, 6, 7) +
                                   __builtin_shufflevector(lanes, lanes, 8, 9, 10, 11, 12, 13, 14, 15);
    fold_to_four<8, Compute>(half, out);
  } else if constexpr (L == 8) {
    out =
        __builtin_shufflevector(lanes, lanes, 0, 1, 2, 3) + __builtin_shufflevector(lanes, lanes, 4, 5, 6, 7);
  } else if constexpr (L == 4) {
    out = lanes;
  } else {
    out = Lanes<Compute, 4>{lanes[0], lanes[1]};
  }
}

/// sums[i] = the sum of the lanes of vectors[i].
template <int L, int Count, typename Compute>
BOV_ALWAYS_INLINE void sum_lanes(const Lanes<Compute, L> (&vectors)[Count], Compute (&sums)[Count]) {
  Lanes<Compute, 4> v[4] = {};
  for (int i = 0; i < Count; ++i) {
    fold_to_four<L, Compute>(vectors[i], v[i]);
  }
  // Four sums at once, by transposing.
  const Lanes<Compute, 4> ab =
      __builtin_shufflevector(v[0], v[1], 0, 4, 1, 5) + __builtin_shufflevector(v[0], v[1], 2, 6, 3, 7);
  const Lanes<Compute, 4> cd =
      __builtin_shufflevector(v[2], v[3], 0, 4, 1, 5) + __builtin_shufflevector(v[2], v[3], 2, 6, 3, 7);
  const Lanes<Compute, 4> all =
      __builtin_shufflevector(ab, cd, 0, 1, 4, 5) + __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
  for (int i = 0; i < Count; ++i) {
    sums[i] = all[i];
  }
}

/// exponential of each lane.
template <int L>
BOV_ALWAYS_INLINE void exp_lanes(Lanes<float, L>& x) {
  exponential_in_place<Lanes<uint32_t, L>>(x);
}

template <int L>
BOV_ALWAYS_INLINE void exp_lanes(Lanes<double, L>& x) {
  for (int i = 0; i < L; ++i) {
    x[i] = exponential(x[i]);
  }
}

}  // namespace bov::ops::cpu
