#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "experiments/bench/bench_runner.h"

namespace bov::experiments {

/// A table for the terminal: problem, method, median time, rates, speed against the baseline, extra memory.
std::string to_table(const std::vector<BenchMeasurement>& measurements);

/// Everything measured, with the environment: {"environment": {…}, "measurements": [{…}]}; seconds and bytes.
nlohmann::json to_json(const std::vector<BenchMeasurement>& measurements);

}  // namespace bov::experiments
