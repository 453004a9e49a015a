#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bov/model/accounting.h"
#include "experiments/config/run_config.h"

/// What a config costs before anything is trained.
namespace bov::experiments {

struct Inspection {
  RunConfig config;
  std::string device;  ///< the `auto` dtypes are those of this device
  ParameterCounts parameters;
  int64_t flops_per_token = 0;           ///< as published
  int64_t executed_flops_per_token = 0;  ///< as this implementation computes
  int64_t steps = 0;
  int64_t tokens = 0;
  MemoryEstimate memory;  ///< bytes
};

/// Throws if the model is impossible or its device is missing.
Inspection inspect_config(const RunConfig& config);

/// Every number under the name that the text gives it.
nlohmann::ordered_json to_json(const Inspection& inspection);

/// A page for a terminal.
std::string to_text(const Inspection& inspection);

/// One line a config: parameters, FLOPs, steps, tokens, memory and the V cache saved.
std::string to_table(const std::vector<Inspection>& inspections);

}  // namespace bov::experiments
