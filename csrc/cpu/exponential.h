#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "csrc/cpu/instruction_set.h"

namespace bov::ops::cpu {

template <typename To, typename From>
BOV_ALWAYS_INLINE void copy_bits(To& to, const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  std::memcpy(&to, &from, sizeof(To));
}

/// x = e^x for x <= 0, to about one unit in the last place; 0 below e^-87 and a NaN for a NaN. `Real` is float or a vector of
/// it, `Word` uint32_t or as long a vector.
template <typename Word, typename Real>
BOV_ALWAYS_INLINE void exponential_in_place(Real& x) {
  // e^x = 2^n·e^r with a whole n and |r| <= ln(2)/2. Adding 1.5·2^23 rounds to a whole number and leaves it in the low
  // bits; ln(2) has a high part whose product with n is exact.
  constexpr float kRound = 0x1.8p23f;
  const Real shifted = x * 0x1.715476p0f + kRound;
  const Real n = shifted - kRound;
  const Real r = (x - n * 0x1.62ep-1f) - n * 0x1.0bfbe8p-15f;
  // The series of e^r up to r^7/7!; what is left is below 2^-27.
  Real series = r * (1.0f / 5040) + 1.0f / 720;
  series = series * r + 1.0f / 120;
  series = series * r + 1.0f / 24;
  series = series * r + 1.0f / 6;
  series = series * r + 0.5f;
  series = series * r + 1.0f;
  series = series * r + 1.0f;
  Word exponent;
  copy_bits(exponent, shifted);
  exponent = (exponent << 23) + 0x3f800000u;
  Real scale;
  copy_bits(scale, exponent);
  // A product, not a sum of exponents, which would make a number of a NaN.
  const Real power = series * scale;
  // A mask, not a branch: the compiler would move the series into the branch and not vectorise it.
  const Word keep = x < -87.0f ? Word{} : ~Word{};
  Word bits;
  copy_bits(bits, power);
  bits &= keep;
  copy_bits(x, bits);
}

/// The same as a value; float64 by the standard library.
template <typename T>
BOV_ALWAYS_INLINE T exponential(T x) {
  if constexpr (std::is_same_v<T, float>) {
    exponential_in_place<uint32_t>(x);
    return x;
  } else {
    return std::exp(x);
  }
}

}  // namespace bov::ops::cpu
