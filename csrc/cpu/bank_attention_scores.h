#pragma once

#include <algorithm>
#include <limits>

#include "csrc/cpu/bank_attention_tiles.h"

namespace bov::ops::cpu {

/// scores[slot, query] = query · key for some slots and queries of one key head.
template <int L, int Slots, int Queries, typename Key, typename Compute>
BOV_ALWAYS_INLINE void dot_tile(const Key* const* keys,
                                const Key* next,
                                const Compute* queries,
                                int64_t width,
                                Compute* scores,
                                int64_t score_stride) {
  // With one query its parts are summed apart: more sums in flight hide the latency of an addition.
  constexpr int kSums = Queries == 1 ? kParts<Key> : 1;
  Lanes<Compute, L> sums[Queries][kSums][Slots] = {};
  const auto multiply = [&](int64_t d) __attribute__((always_inline)) {
    Lanes<Compute, L> query[Queries][kParts<Key>];
    for (int q = 0; q < Queries; ++q) {
      for (int k = 0; k < kParts<Key>; ++k) {
        load_lanes(queries + q * width + d + k * L, query[q][k]);
      }
    }
    for (int s = 0; s < Slots; ++s) {
      Lanes<Compute, L> key[kParts<Key>];
      load_parts<L>(keys[s] + d, key);
      for (int q = 0; q < Queries; ++q) {
        for (int k = 0; k < kParts<Key>; ++k) {
          sums[q][k % kSums][s] += key[k] * query[q][k];
        }
      }
    }
  };
  const auto prefetch = [&](int64_t d) __attribute__((always_inline)) {
    constexpr int64_t kLine = 64 / sizeof(Key);
    for (int s = 0; s < Slots; ++s) {
      __builtin_prefetch(next + d * Slots + s * kLine);
    }
  };
  const int64_t done = for_vectors<L, Key>(width, multiply, prefetch);
  for (int q = 0; q < Queries; ++q) {
    for (int k = 1; k < kSums; ++k) {
      for (int s = 0; s < Slots; ++s) {
        sums[q][0][s] += sums[q][k][s];
      }
    }
    Compute sum[Slots];
    sum_lanes<L, Slots, Compute>(sums[q][0], sum);
    for (int s = 0; s < Slots; ++s) {
      for (int64_t d = done; d < width; ++d) {
        sum[s] += element_cast<Compute>(keys[s][d]) * queries[q * width + d];
      }
      scores[s * score_stride + q] = sum[s];
    }
  }
}

/// The scores of slots [0, count) of one sequence: scores[slot, row], with zeros in the padding.
template <typename Key, typename Compute>
struct ScoreSlots {
  struct Problem {
    QueryGroups shape;
    const Key* keys;  ///< first slot
    int64_t slot_stride, head_stride;
    int64_t count;
    const Compute* queries;  ///< [heads, group, width] in the order of ReorderRows, times 1/sqrt(width)
    Compute* scores;         ///< [count, padded]
  };

  template <int L, int Slots>
  BOV_ALWAYS_INLINE static void tile(const Problem& p, int64_t slot, int64_t head) {
    const QueryGroups& shape = p.shape;
    const Key* keys[Slots];
    for (int s = 0; s < Slots; ++s) {
      keys[s] = p.keys + (slot + s) * p.slot_stride + head * p.head_stride;
    }
    // The next tile is asked for in the order of memory, which hardware prefetchers follow. The address may lie
    // beyond the keys: a prefetch of what does not exist does nothing.
    const bool heads_adjacent = p.head_stride == shape.width && p.slot_stride == shape.heads * shape.width;
    const Key* next = p.keys + (slot + Slots) * p.slot_stride +
                      head * (heads_adjacent ? Slots * shape.width : p.head_stride);
    const Compute* queries = p.queries + head * shape.group * shape.width;
    Compute* scores = p.scores + slot * shape.padded + head * shape.group;
    int64_t q = 0;
    for (; q + 2 <= shape.group; q += 2) {
      dot_tile<L, Slots, 2>(keys, next, queries + q * shape.width, shape.width, scores + q, shape.padded);
    }
    if (q < shape.group) {
      dot_tile<L, Slots, 1>(keys, next, queries + q * shape.width, shape.width, scores + q, shape.padded);
    }
  }

  template <int Bytes>
  BOV_ALWAYS_INLINE static void run(const Problem& p) {
    constexpr int L = kLanes<Compute, Bytes>;
    const QueryGroups& shape = p.shape;
    int64_t slot = 0;
    for (; slot + kTile <= p.count; slot += kTile) {
      for (int64_t head = 0; head < shape.heads; ++head) {
        tile<L, kTile>(p, slot, head);
      }
    }
    for (; slot < p.count; ++slot) {
      for (int64_t head = 0; head < shape.heads; ++head) {
        tile<L, 1>(p, slot, head);
      }
    }
    for (slot = 0; slot < p.count; ++slot) {
      std::fill(p.scores + slot * shape.padded + shape.rows, p.scores + (slot + 1) * shape.padded,
                Compute(0));
    }
  }
};

/// largest[row] = max over slots [0, count) of scores[slot, row], but no less than the lowest finite number, so
/// that scores of -infinity get the weight 0. A NaN is passed over: its weight is NaN whatever the maximum is.
template <typename Compute>
struct MaxOfScores {
  template <int Bytes>
  BOV_ALWAYS_INLINE static void run(const Compute* scores, int64_t count, int64_t padded, Compute* largest) {
    for (int64_t row = 0; row < padded; row += kScoreLanes) {
      Lanes<Compute, kScoreLanes> max =
          Lanes<Compute, kScoreLanes>{} + std::numeric_limits<Compute>::lowest();
      for (int64_t slot = 0; slot < count; ++slot) {
        Lanes<Compute, kScoreLanes> score;
        load_lanes(scores + slot * padded + row, score);
        max = score > max ? score : max;
      }
      store_lanes(largest + row, max);
    }
  }
};

/// The weights e^(score - offset) of slots [0, count), and their sums. With `to_weight` they are added to the
/// row to_weight[slot] of `weights`, else they take the place of the scores.
template <typename Compute>
struct WeighSlots {
  struct Problem {
    int64_t count, padded;
    const Compute* offset;     ///< [padded]
    Compute* scores;           ///< [count, padded]
    Compute* sums;             ///< [padded] out
    const int32_t* to_weight;  ///< [count] or null
    Compute* weights;          ///< [distinct rows, padded]
  };

  template <int Bytes>
  BOV_ALWAYS_INLINE static void run(const Problem& p) {
    using Weights = Lanes<Compute, kScoreLanes>;
    for (int64_t row = 0; row < p.padded; row += kScoreLanes) {
      Weights offset, sum = {};
      load_lanes(p.offset + row, offset);
      for (int64_t slot = 0; slot < p.count; ++slot) {
        Compute* score = p.scores + slot * p.padded + row;
        Weights weight;
        load_lanes(score, weight);
        weight -= offset;
        exp_lanes<kScoreLanes>(weight);
        sum += weight;
        if (p.to_weight != nullptr) {
          score = p.weights + p.to_weight[slot] * p.padded + row;
          Weights earlier;
          load_lanes(score, earlier);
          weight += earlier;
        }
        store_lanes(score, weight);
      }
      store_lanes(p.sums + row, sum);
    }
  }
};

}  // namespace bov::ops::cpu
