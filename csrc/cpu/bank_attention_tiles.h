#pragma once

#include <algorithm>

#include "csrc/cpu/vector_lanes.h"

/// What the loops of bank_attention on a CPU share. Each loop runs over one stretch of slots or rows in one
/// thread: bank_attention_scores.h has those over keys and scores, bank_attention_rows.h the weighted sum of
/// table rows.
///
/// The queries that attend with one key head form a group: a sequence has `heads` groups of `group` queries,
/// and rows = heads * group scores for each slot, which lie side by side and are padded to `padded`.
namespace bov::ops::cpu {

/// Lanes in which scores and weights of one slot are computed, for every instruction set.
constexpr int kScoreLanes = 8;
/// Slots or rows that are read together, so that their loads overlap and an accumulator is kept in a register.
constexpr int kTile = 4;

struct QueryGroups {
  int64_t heads;   ///< of keys
  int64_t group;   ///< queries that share a key head
  int64_t width;   ///< head size
  int64_t rows;    ///< heads * group
  int64_t padded;  ///< rows, up to a multiple of kScoreLanes
};

/// Calls body(element) for each vector of a row of `Element` and prefetch(element) for each cache line;
/// returns where the last whole vector ends.
template <int L, typename Element, typename Body, typename Prefetch>
BOV_ALWAYS_INLINE int64_t for_vectors(int64_t width, const Body& body, const Prefetch& prefetch) {
  constexpr int64_t kStep = L * kParts<Element>;
  constexpr int64_t kLine = std::max<int64_t>(kStep, 64 / static_cast<int64_t>(sizeof(Element)));
  int64_t d = 0;
  for (; d + kLine <= width; d += kLine) {
    prefetch(d);
    for (int64_t i = 0; i < kLine; i += kStep) {
      body(d + i);
    }
  }
  for (; d + kStep <= width; d += kStep) {
    body(d);
  }
  return d;
}

/// Puts the elements of rows of Compute into the order of load_parts for `Element`, or back.
template <typename Element, typename Compute>
struct ReorderRows {
  template <int Bytes>
  BOV_ALWAYS_INLINE static void run(
      const Compute* in, int64_t rows, int64_t width, bool back, Compute scale, Compute* out) {
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t d = 0; d < width; ++d) {
        const int64_t place = place_of<kLanes<Compute, Bytes>, Element>(d, width);
        out[row * width + (back ? d : place)] = in[row * width + (back ? place : d)] * scale;
      }
    }
  }
};

}  // namespace bov::ops::cpu
