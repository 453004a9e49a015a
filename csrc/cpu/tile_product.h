#pragma once

#include <algorithm>
#include <cstdint>

#include "csrc/cpu/row_math.h"

/// Products of small matrices that stay in cache, for kernels that fuse several of them (run_fused).
namespace bov::ops::cpu {

/// Columns of a tile of results: two vectors of 32 bytes.
template <typename T>
inline constexpr int64_t kTileColumns = 64 / sizeof(T);
/// Rows of a tile: its 12 vectors leave room for a row of b and a broadcast in 16 registers.
inline constexpr int64_t kTileRows = 6;

/// Half-open range of rows or columns.
struct Range {
  int64_t begin, end;
};

/// A matrix of which an entry [i, j] is at data[i * row + j * column].
template <typename T>
struct Matrix {
  const T* data;
  int64_t row;
  int64_t column = 1;

  BOV_ALWAYS_INLINE const T* at(int64_t i, int64_t j) const { return data + i * row + j * column; }
};

/// c = a·b over the depth, or c += a·b if `Add`, for Rows rows and kTileColumns columns.
template <int Rows, bool Add, typename T>
void tile_product(const T* a,
                  int64_t a_row,
                  int64_t a_column,
                  const T* b,
                  int64_t b_row,
                  int64_t depth,
                  T* c,
                  int64_t c_row) {
  for (int i = 0; i < Rows; ++i) {
    T sums[kTileColumns<T>] = {};
    for (int64_t p = 0; p < depth; ++p) {
      for (int64_t j = 0; j < kTileColumns<T>; ++j) {
        sums[j] += a[i * a_row + p * a_column] * b[p * b_row + j];
      }
    }
    for (int64_t j = 0; j < kTileColumns<T>; ++j) {
      c[i * c_row + j] = sums[j] + (Add ? c[i * c_row + j] : T(0));
    }
  }
}

#if defined(__x86_64__)
/// The same with all sums in registers. Vectors of the language are cut to the size of the target before inlining, so
/// the target must be that of this function.
template <int Rows, bool Add, typename T>
BOV_TARGET_FMA void tile_product_fma(const T* a,
                                     int64_t a_row,
                                     int64_t a_column,
                                     const T* b,
                                     int64_t b_row,
                                     int64_t depth,
                                     T* c,
                                     int64_t c_row) {
  typedef T Vector __attribute__((vector_size(32), aligned(sizeof(T)), may_alias));
  constexpr int64_t kLanes = 32 / sizeof(T);
  Vector sums[Rows][2] = {};
  for (int64_t p = 0; p < depth; ++p) {
    const Vector left = *reinterpret_cast<const Vector*>(b + p * b_row);
    const Vector right = *reinterpret_cast<const Vector*>(b + p * b_row + kLanes);
#pragma GCC unroll 6
    for (int i = 0; i < Rows; ++i) {
      const T factor = a[i * a_row + p * a_column];
      sums[i][0] += factor * left;
      sums[i][1] += factor * right;
    }
  }
#pragma GCC unroll 6
  for (int i = 0; i < Rows; ++i) {
    Vector& left = *reinterpret_cast<Vector*>(c + i * c_row);
    Vector& right = *reinterpret_cast<Vector*>(c + i * c_row + kLanes);
    left = Add ? left + sums[i][0] : sums[i][0];
    right = Add ? right + sums[i][1] : sums[i][1];
  }
}
#endif

/// Rows rows of c = a·b or c += a·b: whole tiles that cover `columns`, summed over `depth`.
template <bool Fma, int Rows, bool Add, typename T>
BOV_ALWAYS_INLINE void tile_row(
    const Matrix<T>& a, int64_t row, Range depth, const Matrix<T>& b, Range columns, T* c, int64_t c_row) {
  const int64_t first = columns.begin / kTileColumns<T> * kTileColumns<T>;
  for (int64_t j = first; j < columns.end; j += kTileColumns<T>) {
    const T* a_tile = a.at(row, depth.begin);
    const T* b_tile = b.at(depth.begin, j);
    T* c_tile = c + row * c_row + j;
    const int64_t count = depth.end - depth.begin;
    if constexpr (Fma) {
      tile_product_fma<Rows, Add>(a_tile, a.row, a.column, b_tile, b.row, count, c_tile, c_row);
    } else {
      tile_product<Rows, Add>(a_tile, a.row, a.column, b_tile, b.row, count, c_tile, c_row);
    }
  }
}

/// Rows `rows` of c = a·b, or of c += a·b if `Add`. `extent(first, last)` gives for the rows first to last the ranges
/// {columns, depth} beyond which nothing is needed or all factors are zero. b and c have whole tiles of columns.
template <bool Fma, bool Add, typename T, typename Extent>
BOV_ALWAYS_INLINE void product(
    Range rows, const Matrix<T>& a, const Matrix<T>& b, T* c, int64_t c_row, const Extent& extent) {
  for (int64_t i = rows.begin; i < rows.end; i += kTileRows) {
    const int64_t count = std::min(kTileRows, rows.end - i);
    const auto [columns, depth] = extent(i, i + count - 1);
    switch (count) {
      case 1:
        tile_row<Fma, 1, Add>(a, i, depth, b, columns, c, c_row);
        break;
      case 2:
        tile_row<Fma, 2, Add>(a, i, depth, b, columns, c, c_row);
        break;
      case 3:
        tile_row<Fma, 3, Add>(a, i, depth, b, columns, c, c_row);
        break;
      case 4:
        tile_row<Fma, 4, Add>(a, i, depth, b, columns, c, c_row);
        break;
      case 5:
        tile_row<Fma, 5, Add>(a, i, depth, b, columns, c, c_row);
        break;
      default:
        tile_row<Fma, kTileRows, Add>(a, i, depth, b, columns, c, c_row);
    }
  }
}

}  // namespace bov::ops::cpu
