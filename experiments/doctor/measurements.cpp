#include "experiments/doctor/measurements.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/rand.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>

namespace bov::experiments {
namespace {

constexpr double kMeasuringSeconds = 0.33;

double best_seconds(const std::function<void()>& work) {
  using Clock = std::chrono::steady_clock;
  const auto seconds_since = [](Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  work();  // the first run also starts threads and touches memory for the first time
  double best = std::numeric_limits<double>::infinity();
  const auto begin = Clock::now();
  do {
    const auto start = Clock::now();
    work();
    best = std::min(best, seconds_since(start));
  } while (seconds_since(begin) < kMeasuringSeconds);
  return best;
}

}  // namespace

double measure_matmul_rate(at::ScalarType type, int64_t size) {
  const c10::InferenceMode guard;
  const at::Tensor a = at::rand({size, size}).to(type);
  const at::Tensor b = at::rand({size, size}).to(type);
  at::Tensor product = at::empty({size, size}, a.options());
  const double operations = 2.0 * static_cast<double>(size * size * size);
  return operations / best_seconds([&] { at::mm_out(product, a, b); });
}

double measure_copy_rate() {
  const c10::InferenceMode guard;
  constexpr int64_t kBytes = int64_t{64} << 20;
  const at::Tensor from = at::rand({kBytes / 4});
  at::Tensor to = at::empty_like(from);
  return 2.0 * kBytes / best_seconds([&] { to.copy_(from); });
}

}  // namespace bov::experiments
