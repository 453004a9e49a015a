#pragma once

#include <cstdint>
#include <type_traits>

#ifdef __CUDACC__
#define BOV_HOST_DEVICE __host__ __device__ inline
#else
#define BOV_HOST_DEVICE inline
#endif

/// Pieces that kernels share with their tests on the host and with CPU code.
namespace bov::kernels {

/// Precision of arithmetic between two element types: float64 if either is, else float32.
template <typename A, typename B>
using ComputeType = std::conditional_t<std::is_same_v<A, double> || std::is_same_v<B, double>, double, float>;

BOV_HOST_DEVICE int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

BOV_HOST_DEVICE int64_t clamped(int64_t x, int64_t low, int64_t high) {
  return x < low ? low : x > high ? high : x;
}

/// Converts between element types; 16-bit ones go by way of float, the only conversion that all of them have.
template <typename To, typename From>
BOV_HOST_DEVICE To element_cast(From x) {
  if constexpr (std::is_same_v<To, From>) {
    return x;
  } else if constexpr (sizeof(From) == 2 || sizeof(To) == 2) {
    return static_cast<To>(static_cast<float>(x));
  } else {
    return static_cast<To>(x);
  }
}

/// `Count` neighbours, moved by one load or store.
template <typename T, int Count>
struct alignas(sizeof(T) * Count) Pack {
  T element[Count];
};

template <typename T, int Count>
BOV_HOST_DEVICE Pack<T, Count> load_pack(const T* from) {
  return *reinterpret_cast<const Pack<T, Count>*>(from);
}

template <typename T, int Count>
BOV_HOST_DEVICE void store_pack(T* to, const Pack<T, Count>& pack) {
  *reinterpret_cast<Pack<T, Count>*>(to) = pack;
}

}  // namespace bov::kernels
