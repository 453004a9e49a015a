#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "csrc/cpu/exponential.h"
#include "csrc/cpu/row_math.h"
#include "csrc/cpu/tile_product.h"

/// Softmax over one block of keys and one block of queries. Scores lie with a row for each key, so that every step
/// over keys is vector code over queries.
namespace bov::ops::cpu {

/// Queries of a block, and keys: whole tiles in both directions for float32 and float64.
inline constexpr int64_t kBlock = 96;
static_assert(kBlock % kTileRows == 0 && kBlock % kTileColumns<float> == 0);

/// Which query of a block sees which key: query j and key i if 0 <= j - i - offset <= left.
struct Window {
  int64_t offset;  ///< first key minus first query
  int64_t left;
  int64_t queries, keys;  ///< in the block, at most kBlock

  /// Queries that see one of the keys first to last.
  BOV_ALWAYS_INLINE Range queries_of(int64_t first, int64_t last) const {
    return {std::max<int64_t>(0, first + offset), std::min(queries, last + offset + left + 1)};
  }
  /// Keys that one of the queries first to last sees.
  BOV_ALWAYS_INLINE Range keys_of(int64_t first, int64_t last) const {
    return {std::max<int64_t>(0, first - offset - left), std::min(keys, last - offset + 1)};
  }
};

/// Rows of `in` as T times `factor`.
template <typename In, typename T>
BOV_ALWAYS_INLINE void load_rows(
    const In* in, int64_t stride, int64_t rows, int64_t width, T factor, T* out, int64_t out_stride) {
  for (int64_t r = 0; r < rows; ++r) {
    scale_row(in + r * stride, factor, out + r * out_stride, width);
  }
}

/// Rows as a matrix of T with whole tiles of columns: in place where they are that, else a copy in `buffer`, whose
/// columns from `width` to `padded` are zero and stay so.
template <typename In, typename T>
BOV_ALWAYS_INLINE Matrix<T> as_matrix(
    const In* in, int64_t stride, int64_t rows, int64_t width, T* buffer, int64_t padded) {
  if constexpr (std::is_same_v<In, T>) {
    if (width == padded) {
      return {in, stride};
    }
  }
  load_rows(in, stride, rows, width, T(1), buffer, padded);
  return {buffer, padded};
}

/// out[i, r] = in[r, i], rows of `out` being kBlock long.
template <typename T>
BOV_ALWAYS_INLINE void transpose(const T* in, int64_t stride, int64_t rows, int64_t width, T* out) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < width; ++i) {
      out[i * kBlock + r] = in[r * stride + i];
    }
  }
}

/// The whole tiles of columns that cover `queries`.
template <typename T>
BOV_ALWAYS_INLINE Range whole_tiles(Range queries) {
  constexpr int64_t kColumns = kTileColumns<T>;
  return {queries.begin / kColumns * kColumns, (queries.end + kColumns - 1) / kColumns * kColumns};
}

/// Sets the entries of a row of kBlock that are not in `seen`.
template <typename T>
BOV_ALWAYS_INLINE void fill_outside(T* row, Range seen, T value) {
  std::fill_n(row, seen.begin, value);
  std::fill_n(row + seen.end, kBlock - seen.end, value);
}

/// Softmax of each query over blocks of keys that come one after the other.
template <typename T>
struct OnlineSoftmax {
  T peaks[kBlock];    ///< largest score so far
  T sums[kBlock];     ///< Σ e^(score - peak)
  T shrinks[kBlock];  ///< what older weights are multiplied by, since a larger score has come

  BOV_ALWAYS_INLINE OnlineSoftmax() {
    std::fill_n(peaks, kBlock, std::numeric_limits<T>::lowest());
    std::fill_n(sums, kBlock, T(0));
  }

  /// Turns scores [keys, kBlock] into weights e^(score - peak), 0 where the window hides the key.
  BOV_ALWAYS_INLINE void add(T* __restrict scores, Range keys, const Window& window) {
    std::copy_n(peaks, kBlock, shrinks);
    for (int64_t i = keys.begin; i < keys.end; ++i) {
      T* row = scores + i * kBlock;
      const Range seen = window.queries_of(i, i);
      fill_outside(row, seen, -std::numeric_limits<T>::infinity());
      const Range tiles = whole_tiles<T>(seen);
      for (int64_t j = tiles.begin; j < tiles.end; ++j) {
        peaks[j] = row[j] > peaks[j] ? row[j] : peaks[j];
      }
    }
    for (int64_t j = 0; j < kBlock; ++j) {
      shrinks[j] = exponential(shrinks[j] - peaks[j]);
      sums[j] *= shrinks[j];
    }
    for (int64_t i = keys.begin; i < keys.end; ++i) {
      T* row = scores + i * kBlock;
      const Range seen = window.queries_of(i, i);
      const Range tiles = whole_tiles<T>(seen);
      for (int64_t j = tiles.begin; j < tiles.end; ++j) {
        row[j] = exponential(row[j] - peaks[j]);
        sums[j] += row[j];
      }
      fill_outside(row, seen, T(0));
    }
  }

  /// Brings weighted sums [count, columns] up to date with the peaks.
  BOV_ALWAYS_INLINE void shrink(T* __restrict rows, int64_t count, int64_t columns) const {
    for (int64_t j = 0; j < count; ++j) {
      for (int64_t i = 0; i < columns; ++i) {
        rows[j * columns + i] *= shrinks[j];
      }
    }
  }
};

/// Turns scores into weights e^(score - total) and gradients of weights into gradients of scores,
/// weight·(gradient - delta), both [keys, kBlock] and 0 where the window hides the key.
template <typename T>
BOV_ALWAYS_INLINE void softmax_gradient(T* __restrict weights,
                                        T* __restrict gradients,
                                        Range keys,
                                        const Window& window,
                                        const T* __restrict totals,
                                        const T* __restrict deltas) {
  for (int64_t i = keys.begin; i < keys.end; ++i) {
    T* weight = weights + i * kBlock;
    T* gradient = gradients + i * kBlock;
    const Range seen = window.queries_of(i, i);
    const Range tiles = whole_tiles<T>(seen);
    for (int64_t j = tiles.begin; j < tiles.end; ++j) {
      weight[j] = exponential(weight[j] - totals[j]);
      gradient[j] = weight[j] * (gradient[j] - deltas[j]);
    }
    fill_outside(weight, seen, T(0));
    fill_outside(gradient, seen, T(0));
  }
}

}  // namespace bov::ops::cpu
