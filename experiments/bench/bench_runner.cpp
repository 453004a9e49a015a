#include "experiments/bench/bench_runner.h"

#include <ATen/detail/CUDAHooksInterface.h>
#include <benchmark/benchmark.h>

#include <algorithm>
#include <map>
#include <stdexcept>

#include "experiments/bench/peak_memory.h"

namespace bov::experiments {
namespace {

/// Calls between two waits for the device, so that a wait costs little of what is measured.
constexpr int64_t kCallsInFlight = 16;

void measure(benchmark::State& state, const BenchCase& method, c10::Device device) {
  const auto wait = [&] {
    if (device.is_cuda()) at::detail::getCUDAHooks().deviceSynchronize(device.index());
  };
  const int64_t calls = device.is_cuda() ? kCallsInFlight : 1;
  method.run();  // other cases have had the caches since the last turn
  wait();
  while (state.KeepRunningBatch(calls)) {
    for (int64_t i = 0; i < calls; ++i) method.run();
    wait();
  }
}

/// Keeps the seconds a call of every repetition, by method.
class Collector : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      if (run.run_type != Run::RT_Iteration) continue;
      seconds[run.run_name.function_name].push_back(run.real_accumulated_time /
                                                    static_cast<double>(run.iterations));
    }
  }

  std::map<std::string, std::vector<double>> seconds;
};

/// Google Benchmark takes its settings as a command line.
void set_up(const BenchPrecision& precision) {
  std::vector<std::string> words = {"bov", "--benchmark_enable_random_interleaving=true",
                                    "--benchmark_repetitions=" + std::to_string(precision.repetitions),
                                    "--benchmark_min_time=" + std::to_string(precision.min_seconds)};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  int count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, arguments.data());
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

double BenchMeasurement::median_seconds() const {
  return median(seconds);
}

std::vector<BenchMeasurement> run_bench(const BenchGroup& group,
                                        c10::Device device,
                                        const BenchPrecision& precision) {
  const std::vector<BenchCase> cases = group.make();
  set_up(precision);
  std::vector<BenchMeasurement> measurements;
  for (const BenchCase& method : cases) {
    measurements.push_back({.op = group.op,
                            .problem = group.problem,
                            .method = method.method,
                            .bytes = method.bytes,
                            .tokens = method.tokens,
                            .facts = method.facts,
                            .peak_extra_bytes = peak_extra_bytes(method.run)});
    benchmark::RegisterBenchmark(method.method.c_str(), [&method, device](benchmark::State& state) {
      measure(state, method, device);
    })->UseRealTime();
  }
  Collector collector;
  benchmark::RunSpecifiedBenchmarks(&collector);
  benchmark::ClearRegisteredBenchmarks();

  if (!collector.seconds.contains(group.baseline)) {
    throw std::logic_error("benchmark '" + group.name() + "' has no method '" + group.baseline + "'");
  }
  const double baseline = median(collector.seconds[group.baseline]);
  for (BenchMeasurement& measurement : measurements) {
    measurement.seconds = collector.seconds[measurement.method];
    measurement.baseline_seconds = baseline;
  }
  return measurements;
}

}  // namespace bov::experiments
