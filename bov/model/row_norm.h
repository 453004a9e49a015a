#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "csrc/cpu/row_math.h"

/// Loops over rows for norms on the CPU, for run_widest: each runs over rows [begin, end).
namespace bov::row_norm {

/// Σ a·b in 16 running sums, so that the loop is vector code and the order depends on the width alone.
template <typename T>
BOV_ALWAYS_INLINE T inner_product(const T* a, const T* b, int64_t width) {
  constexpr int64_t kLanes = 16;
  T lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= width; i += kLanes) {
    for (int64_t j = 0; j < kLanes; ++j) lanes[j] += a[i + j] * b[i + j];
  }
  T sum = 0;
  for (; i < width; ++i) sum += a[i] * b[i];
  for (const T lane : lanes) sum += lane;
  return sum;
}

template <typename T>
BOV_ALWAYS_INLINE T inverse_rms(const T* x, int64_t width, T epsilon) {
  return T(1) / std::sqrt(inner_product(x, x, width) / static_cast<T>(width) + epsilon);
}

/// Rows that are worth a thread of their own.
inline int64_t rows_per_task(int64_t width) {
  return std::max<int64_t>(1, 32768 / width);
}

/// Contiguous rows and what is done with them.
template <typename T>
struct Rows {
  const T* x;
  const T* upstream;  ///< gradient of the result; null in a forward pass
  T* out;             ///< the result, or the gradient of x
  int64_t width;
  T epsilon;
};

/// Rows [B, T, H] of heads, rotated by the angles of their position.
template <typename T>
struct RotatedRows : Rows<T> {
  const T* cos;  ///< [T, D/2], as sin
  const T* sin;
  int64_t positions, heads;
  T scale;

  BOV_ALWAYS_INLINE int64_t first_angle(int64_t row) const {
    return row / heads % positions * (this->width / 2);
  }
};

/// y = x·r with r = 1/rms(x).
struct Forward {
  template <typename T>
  static BOV_ALWAYS_INLINE void run(const Rows<T>& rows, int64_t begin, int64_t end) {
    const int64_t width = rows.width;
    for (int64_t row = begin; row < end; ++row) {
      const T* x = rows.x + row * width;
      T* y = rows.out + row * width;
      const T r = inverse_rms(x, width, rows.epsilon);
      for (int64_t i = 0; i < width; ++i) y[i] = x[i] * r;
    }
  }
};

/// dx = r·(dy - x·r²·mean(dy·x)).
struct Backward {
  template <typename T>
  static BOV_ALWAYS_INLINE void run(const Rows<T>& rows, int64_t begin, int64_t end) {
    const int64_t width = rows.width;
    for (int64_t row = begin; row < end; ++row) {
      const T* x = rows.x + row * width;
      const T* dy = rows.upstream + row * width;
      T* dx = rows.out + row * width;
      const T r = inverse_rms(x, width, rows.epsilon);
      const T along = r * r * inner_product(x, dy, width) / static_cast<T>(width);
      for (int64_t i = 0; i < width; ++i) dx[i] = r * (dy[i] - along * x[i]);
    }
  }
};

/// y = s·r·R(x): R rotates halves by the angles of the row's position; a rotation leaves the norm as it is.
struct RotaryForward {
  template <typename T>
  static BOV_ALWAYS_INLINE void run(const RotatedRows<T>& rows, int64_t begin, int64_t end) {
    const int64_t width = rows.width, half = width / 2;
    for (int64_t row = begin; row < end; ++row) {
      const T* x = rows.x + row * width;
      T* y = rows.out + row * width;
      const T* cos = rows.cos + rows.first_angle(row);
      const T* sin = rows.sin + rows.first_angle(row);
      const T r = rows.scale * inverse_rms(x, width, rows.epsilon);
      for (int64_t i = 0; i < half; ++i) {
        const T c = cos[i] * r, s = sin[i] * r;
        y[i] = x[i] * c + x[half + i] * s;
        y[half + i] = x[half + i] * c - x[i] * s;
      }
    }
  }
};

/// dx of RotaryForward: the upstream gradient is rotated back, then goes through the norm.
struct RotaryBackward {
  template <typename T>
  static BOV_ALWAYS_INLINE void run(const RotatedRows<T>& rows, int64_t begin, int64_t end) {
    const int64_t width = rows.width, half = width / 2;
    for (int64_t row = begin; row < end; ++row) {
      const T* x = rows.x + row * width;
      const T* dy = rows.upstream + row * width;
      T* dx = rows.out + row * width;
      const T* cos = rows.cos + rows.first_angle(row);
      const T* sin = rows.sin + rows.first_angle(row);
      const T r = inverse_rms(x, width, rows.epsilon);
      for (int64_t i = 0; i < half; ++i) {
        const T c = cos[i], s = sin[i];
        dx[i] = dy[i] * c - dy[half + i] * s;
        dx[half + i] = dy[half + i] * c + dy[i] * s;
      }
      const T along = r * r * inner_product(x, dx, width) / static_cast<T>(width);
      const T factor = rows.scale * r;
      for (int64_t i = 0; i < width; ++i) dx[i] = factor * (dx[i] - along * x[i]);
    }
  }
};

}  // namespace bov::row_norm
