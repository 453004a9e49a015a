#pragma once

#include <c10/util/BFloat16.h>

#include <bit>
#include <cstdint>

#include "csrc/cpu/row_math.h"

namespace bov::ops::cpu {

/// `x` rounded to bfloat16, to nearest with ties to even, in the upper half; the lower half is of no use.
BOV_ALWAYS_INLINE uint32_t bfloat16_in_upper_half(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
  return x != x ? 0x7fc00000u : rounded;
}

/// out = scale * in for `count` elements, an even number, as scale_row; both neighbours of a 32-bit word stay where they
/// are, so that vector code moves no lanes.
BOV_ALWAYS_INLINE void scale_bfloat16(const c10::BFloat16* in,
                                      float scale,
                                      c10::BFloat16* out,
                                      int64_t count) {
  using Word = uint32_t __attribute__((may_alias, aligned(2)));
  // Not auto, which drops the attributes: rows may start at any bfloat16.
  const Word* __restrict from = reinterpret_cast<const Word*>(in);
  Word* __restrict to = reinterpret_cast<Word*>(out);
  for (int64_t i = 0; i < count / 2; ++i) {
    const uint32_t word = from[i];
    const uint32_t low = bfloat16_in_upper_half(scale * std::bit_cast<float>(word << 16));
    const uint32_t high = bfloat16_in_upper_half(scale * std::bit_cast<float>(word & 0xffff0000u));
    to[i] = (low >> 16) | (high & 0xffff0000u);
  }
}

}  // namespace bov::ops::cpu
