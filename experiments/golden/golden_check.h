#pragma once

#include <torch/types.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

/// Comparison with golden vectors of the published model: files of tensors made by running the published classes
/// (tests/golden/README.md gives the format).
namespace bov::experiments {

/// Largest relative error ‖a - b‖/‖b‖ of the tensors of one group: "logits", "losses", and for the gradients and the
/// updated parameters "grad/<role>" and "after/<role>" (roles: bov::ParameterRole).
struct GoldenErrors {
  std::string file;
  std::string paper_rows;
  std::map<std::string, double> by_group;
  int64_t flops_per_token = 0;  ///< by our accounting; equal to the index or the check has thrown

  double largest() const;
};

/// Loads every file that `directory`/index.json lists into a model of `dtype` and compares logits, gradients of the first
/// batch and the parameters after the listed number of optimizer steps. Throws std::runtime_error naming the file if the
/// index or a file cannot be read, or if parameter counts, FLOPs or target layers differ from the index.
std::vector<GoldenErrors> check_golden(const std::filesystem::path& directory, torch::Dtype dtype);

}  // namespace bov::experiments
