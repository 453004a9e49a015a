#pragma once

#include <cmath>
#include <cstdint>

#include "csrc/cpu/row_math.h"

/// Loops over rows for norms on the CPU, for run_widest: each runs over rows [begin, end) of contiguous matrices.
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

/// y = x·r with r = 1/rms(x).
struct Forward {
  template <typename T>
  static BOV_ALWAYS_INLINE void run(const T* x, T* y, int64_t begin, int64_t end, int64_t width, T epsilon) {
    for (int64_t row = begin; row < end; ++row) {
      const T* in = x + row * width;
      T* out = y + row * width;
      const T r = inverse_rms(in, width, epsilon);
      for (int64_t i = 0; i < width; ++i) out[i] = in[i] * r;
    }
  }
};

/// dx = r·(dy - x·r²·mean(dy·x)).
struct Backward {
  template <typename T>
  static BOV_ALWAYS_INLINE void run(
      const T* x, const T* dy, T* dx, int64_t begin, int64_t end, int64_t width, T epsilon) {
    for (int64_t row = begin; row < end; ++row) {
      const T* in = x + row * width;
      const T* upstream = dy + row * width;
      T* out = dx + row * width;
      const T r = inverse_rms(in, width, epsilon);
      const T along = r * r * inner_product(in, upstream, width) / static_cast<T>(width);
      for (int64_t i = 0; i < width; ++i) out[i] = r * (upstream[i] - along * in[i]);
    }
  }
};

/// y = s·r·R(x): R rotates halves by the angles of the row's position; a rotation leaves the norm as it is.
struct RotaryForward {
  template <typename T>
  static BOV_ALWAYS_INLINE void run(const T* x,
                                    const T* cos,
                                    const T* sin,
                                    T* y,
                                    int64_t begin,
                                    int64_t end,
                                    int64_t heads,
                                    int64_t positions,
                                    int64_t width,
                                    T scale,
                                    T epsilon) {
    const int64_t half = width / 2;
    for (int64_t row = begin; row < end; ++row) {
      const T* in = x + row * width;
      T* out = y + row * width;
      const int64_t angles = row / heads % positions * half;
      const T r = scale * inverse_rms(in, width, epsilon);
      for (int64_t i = 0; i < half; ++i) {
        const T c = cos[angles + i] * r, s = sin[angles + i] * r;
        out[i] = in[i] * c + in[half + i] * s;
        out[half + i] = in[half + i] * c - in[i] * s;
      }
    }
  }
};

/// dx of RotaryForward: the upstream gradient is rotated back, then goes through the norm.
struct RotaryBackward {
  template <typename T>
  static BOV_ALWAYS_INLINE void run(const T* x,
                                    const T* cos,
                                    const T* sin,
                                    const T* dy,
                                    T* dx,
                                    int64_t begin,
                                    int64_t end,
                                    int64_t heads,
                                    int64_t positions,
                                    int64_t width,
                                    T scale,
                                    T epsilon) {
    const int64_t half = width / 2;
    for (int64_t row = begin; row < end; ++row) {
      const T* in = x + row * width;
      const T* upstream = dy + row * width;
      T* out = dx + row * width;
      const int64_t angles = row / heads % positions * half;
      const T r = inverse_rms(in, width, epsilon);
      for (int64_t i = 0; i < half; ++i) {
        const T c = cos[angles + i], s = sin[angles + i];
        out[i] = upstream[i] * c - upstream[half + i] * s;
        out[half + i] = upstream[half + i] * c + upstream[i] * s;
      }
      const T along = r * r * inner_product(in, out, width) / static_cast<T>(width);
      for (int64_t i = 0; i < width; ++i) out[i] = scale * r * (out[i] - along * in[i]);
    }
  }
};

}  // namespace bov::row_norm
