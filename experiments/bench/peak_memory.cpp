#include "experiments/bench/peak_memory.h"

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <atomic>
#include <memory>

namespace bov::experiments {
namespace {

/// Hears of every allocation and release of this thread and of those that compute for it.
class MemoryCounter : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, int64_t bytes, size_t, size_t, c10::Device) override {
    const int64_t held = held_.fetch_add(bytes) + bytes;
    for (int64_t peak = peak_; held > peak && !peak_.compare_exchange_weak(peak, held);) {
    }
  }
  bool memoryProfilingEnabled() const override { return true; }
  int64_t peak() const { return peak_; }

 private:
  std::atomic<int64_t> held_ = 0;
  std::atomic<int64_t> peak_ = 0;
};

}  // namespace

int64_t peak_extra_bytes(const std::function<void()>& work) {
  const auto counter = std::make_shared<MemoryCounter>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, counter);
  work();
  return counter->peak();
}

}  // namespace bov::experiments
