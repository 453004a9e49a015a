#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace bov::experiments {

/// One way to solve a problem.
struct BenchCase {
  std::string method;         ///< what a reader knows it by: "bov", "at::embedding, multiply, cast"
  std::function<void()> run;  ///< one call; inputs are made before, and results are dropped
  double bytes = 0;           ///< what a call has to read and write at least; 0: no rate is shown
  double tokens = 0;          ///< that a call decodes; 0: none
  /// More about problem and method, fields of the JSON: {"batch": 8, "cache_bytes": 5}.
  nlohmann::json facts = nlohmann::json::object();
};

/// One problem and the ways to solve it, which are timed in turns so that their ratios hold on a busy machine.
struct BenchGroup {
  std::string op;        ///< stem of the operator's files: "value_gather"
  std::string problem;   ///< "backward, 32768 ids x 768, bf16"
  std::string baseline;  ///< method that the others are compared with
  /// Makes the inputs and the cases that share them. Inputs live as long as the cases.
  std::function<std::vector<BenchCase>()> make;

  std::string name() const { return op + ": " + problem; }
};

}  // namespace bov::experiments
