#include "experiments/train/operator_profile.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/profiler_legacy.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <string_view>

namespace bov::experiments {
namespace {

namespace profiler = torch::autograd::profiler;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

bool is_matmul(std::string_view name) {
  constexpr std::array<std::string_view, 6> kMatmuls = {"aten::mm",  "aten::addmm",   "aten::addmm_",
                                                        "aten::bmm", "aten::baddbmm", "aten::baddbmm_"};
  return std::ranges::find(kMatmuls, name) != kMatmuls.end();
}

using TimesByName = std::map<std::string, OperatorTime>;

void add(TimesByName& times, const std::string& name, double seconds) {
  auto& time = times[name];
  time.name = name;
  time.is_matmul = is_matmul(name);
  time.seconds += seconds;
  ++time.calls;
}

/// Walks one thread's pushes and pops, which nest, and books each range's own time.
void add_events(const std::vector<profiler::LegacyEvent>& events,
                TimesByName& operators,
                TimesByName& phases) {
  struct OpenRange {
    const profiler::LegacyEvent* push;
    double inner_seconds;
  };
  std::vector<OpenRange> open;
  for (const auto& event : events) {
    if (event.kind() == profiler::EventKind::PushRange) {
      open.push_back({&event, 0});
    } else if (event.kind() == profiler::EventKind::PopRange && !open.empty()) {
      const OpenRange range = open.back();
      open.pop_back();
      const double seconds = range.push->cpuElapsedUs(event) * 1e-6;
      if (range.push->scope() == static_cast<uint8_t>(at::RecordScope::USER_SCOPE)) {
        add(phases, range.push->name(), seconds);
        continue;  // a phase is no operator: its time stays with the operators inside
      }
      add(operators, range.push->name(), seconds - range.inner_seconds);
      if (!open.empty()) open.back().inner_seconds += seconds;
    }
  }
}

std::vector<OperatorTime> values_of(const TimesByName& times) {
  std::vector<OperatorTime> list;
  for (const auto& [name, time] : times) list.push_back(time);
  return list;
}

double total_seconds(const std::vector<OperatorTime>& times, bool matmul_only) {
  double seconds = 0;
  for (const auto& time : times) {
    if (time.is_matmul || !matmul_only) seconds += time.seconds;
  }
  return seconds;
}

}  // namespace

double OperatorProfile::matmul_seconds() const {
  return total_seconds(operators, true);
}

double OperatorProfile::other_seconds() const {
  return seconds - total_seconds(operators, false);
}

OperatorProfile profile_operators(const std::function<void()>& work) {
  OperatorProfile profile;
  profiler::enableProfilerLegacy(
      torch::profiler::impl::ProfilerConfig(torch::profiler::impl::ProfilerState::CPU));
  const auto start = Clock::now();
  work();
  profile.seconds = seconds_since(start);
  TimesByName operators;
  TimesByName phases;
  for (const auto& thread : profiler::disableProfilerLegacy()) add_events(thread, operators, phases);
  profile.operators = values_of(operators);
  std::ranges::sort(profile.operators, std::greater{}, &OperatorTime::seconds);
  profile.phases = values_of(phases);
  return profile;
}

double measure_matmul_rate() {
  constexpr int64_t kSize = 1536;
  constexpr int kTries = 8;
  const auto a = at::rand({kSize, kSize});
  const auto b = at::rand({kSize, kSize});
  auto product = at::mm(a, b);
  double best = 0;
  for (int i = 0; i < kTries; ++i) {
    const auto start = Clock::now();
    at::mm_out(product, a, b);
    best = std::max(best, 2.0 * kSize * kSize * kSize / seconds_since(start));
  }
  return best;
}

}  // namespace bov::experiments
