#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "experiments/bench/bench_group.h"

namespace bov::experiments {

/// One case's times.
struct BenchMeasurement {
  std::string op, problem, method;
  std::vector<double> seconds;   ///< a call, one number a repetition
  double bytes = 0;              ///< as the case says
  double tokens = 0;             ///< the same
  nlohmann::json facts;          ///< the same
  int64_t peak_extra_bytes = 0;  ///< most tensor memory of a call beyond its inputs
  double baseline_seconds = 0;   ///< median of the group's baseline

  double median_seconds() const;
  double tokens_per_second() const { return tokens / median_seconds(); }
  /// How many times as fast as the baseline.
  double speedup() const { return baseline_seconds / median_seconds(); }
};

struct BenchPrecision {
  int repetitions = 7;
  double min_seconds = 0.05;  ///< of each repetition
};

/// Measures one group: its cases in random turns, `repetitions` times each. Throws std::logic_error for a group
/// without its baseline, and what a case throws.
std::vector<BenchMeasurement> run_bench(const BenchGroup& group,
                                        c10::Device device,
                                        const BenchPrecision& precision);

}  // namespace bov::experiments
