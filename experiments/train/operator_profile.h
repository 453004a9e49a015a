#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace bov::experiments {

/// Time of one operator, without the operators that it calls.
struct OperatorTime {
  std::string name;  ///< "aten::mm"
  int64_t calls = 0;
  double seconds = 0;
  bool is_matmul = false;
};

/// Where the time of some work on the CPU went.
struct OperatorProfile {
  double seconds = 0;                   ///< wall time of the work while it was profiled
  std::vector<OperatorTime> operators;  ///< slowest first
  std::vector<OperatorTime>
      phases;  ///< user scopes (RECORD_USER_SCOPE), with everything inside; in order of name

  /// Time in matrix products that are operators of their own; those inside fused attention are not seen.
  double matmul_seconds() const;
  /// Time outside every operator: the program's own code and the profiler.
  double other_seconds() const;
};

/// Runs `work` under torch's profiler. Only operators called in this thread are seen, which on a CPU are all, backward
/// passes included.
OperatorProfile profile_operators(const std::function<void()>& work);

/// Floating-point operations a second of a large float32 matrix product with the present threads, the best of several
/// tries: the ceiling that a training step can be compared with.
double measure_matmul_rate();

}  // namespace bov::experiments
