#pragma once

#include <algorithm>

#include "csrc/cpu/bank_attention_tiles.h"

namespace bov::ops::cpu {

/// out[query] += sum over `Rows` table rows of weights[row, query] * row, for `Queries` queries of one head.
template <int L, int Rows, int Queries, typename Table, typename Compute>
BOV_ALWAYS_INLINE void add_tile(const Table* const* rows,
                                const Table* const* next,
                                const Compute* weights,
                                int64_t weight_stride,
                                int64_t width,
                                Compute* out) {
  Lanes<Compute, L> weight[Rows][Queries];
  for (int r = 0; r < Rows; ++r) {
    for (int q = 0; q < Queries; ++q) {
      weight[r][q] = Lanes<Compute, L>{} + weights[r * weight_stride + q];
    }
  }
  const auto add = [&](int64_t d) __attribute__((always_inline)) {
    Lanes<Compute, L> sums[Queries][kParts<Table>];
    for (int q = 0; q < Queries; ++q) {
      for (int k = 0; k < kParts<Table>; ++k) {
        load_lanes(out + q * width + d + k * L, sums[q][k]);
      }
    }
    for (int r = 0; r < Rows; ++r) {
      Lanes<Compute, L> row[kParts<Table>];
      load_parts<L>(rows[r] + d, row);
      for (int q = 0; q < Queries; ++q) {
        for (int k = 0; k < kParts<Table>; ++k) {
          sums[q][k] += weight[r][q] * row[k];
        }
      }
    }
    for (int q = 0; q < Queries; ++q) {
      for (int k = 0; k < kParts<Table>; ++k) {
        store_lanes(out + q * width + d + k * L, sums[q][k]);
      }
    }
  };
  const auto prefetch = [&](int64_t d) __attribute__((always_inline)) {
    for (int r = 0; r < Rows; ++r) {
      __builtin_prefetch(next[r] + d);
    }
  };
  const int64_t done = for_vectors<L, Table>(width, add, prefetch);
  for (int q = 0; q < Queries; ++q) {
    for (int64_t d = done; d < width; ++d) {
      Compute sum = out[q * width + d];
      for (int r = 0; r < Rows; ++r) {
        sum += weights[r * weight_stride + q] * element_cast<Compute>(rows[r][d]);
      }
      out[q * width + d] = sum;
    }
  }
}

/// out[row] = sum over k in [0, count) of weights[k, row] * table[ids[k]], over the columns of the row's head.
template <typename Table, typename Compute>
struct AddTableRows {
  struct Problem {
    QueryGroups shape;
    const Table* table;
    int64_t row_stride;
    int64_t count;
    const int32_t* ids;      ///< [count]
    const Compute* weights;  ///< [count, padded]
    Compute* out;            ///< [heads, group, width] in the order of ReorderRows
  };

  template <int L, int Rows>
  BOV_ALWAYS_INLINE static void tile(const Problem& p, int64_t k) {
    // Hardware does not foresee jumps between rows, so they are asked for two tiles early.
    constexpr int64_t kRowsAhead = 2 * kTile;
    const QueryGroups& shape = p.shape;
    const Table* rows[Rows];
    const Table* next[Rows];
    for (int r = 0; r < Rows; ++r) {
      rows[r] = p.table + p.ids[k + r] * p.row_stride;
      next[r] = p.table + p.ids[std::min(k + r + kRowsAhead, p.count - 1)] * p.row_stride;
    }
    for (int64_t head = 0; head < shape.heads; ++head) {
      const Compute* weights = p.weights + k * shape.padded + head * shape.group;
      Compute* out = p.out + head * shape.group * shape.width;
      int64_t q = 0;
      for (; q + 2 <= shape.group; q += 2) {
        add_tile<L, Rows, 2>(rows, next, weights + q, shape.padded, shape.width, out + q * shape.width);
      }
      if (q < shape.group) {
        add_tile<L, Rows, 1>(rows, next, weights + q, shape.padded, shape.width, out + q * shape.width);
      }
      for (int r = 0; r < Rows; ++r) {
        rows[r] += shape.width;
        next[r] += shape.width;
      }
    }
  }

  template <int Bytes>
  BOV_ALWAYS_INLINE static void run(const Problem& p) {
    constexpr int L = kLanes<Compute, Bytes>;
    std::fill_n(p.out, p.shape.rows * p.shape.width, Compute(0));
    int64_t k = 0;
    for (; k + kTile <= p.count; k += kTile) {
      tile<L, kTile>(p, k);
    }
    for (; k < p.count; ++k) {
      tile<L, 1>(p, k);
    }
  }
};

}  // namespace bov::ops::cpu
