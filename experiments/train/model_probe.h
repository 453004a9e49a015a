#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "bov/model/gpt.h"

/// What a run wants to know about a model besides its loss.
namespace bov::experiments {

/// Value coefficients by layer index: {"8": {"gamma": 1.02}}; "alpha" and "beta" where both values are added,
/// "gate_mean" and "gate_std" where the last forward pass recorded its gates. Layers without coefficients are left out.
nlohmann::json value_coefficients(GPT& model);

/// While it lives, and if `on`, forward passes keep their gates for value_coefficients().
class GateRecording {
 public:
  GateRecording(GPT& model, bool on);
  ~GateRecording();
  GateRecording(const GateRecording&) = delete;
  GateRecording& operator=(const GateRecording&) = delete;

 private:
  GPT& model_;
  bool on_;
};

/// The first tensor with a NaN or Inf: "parameter NAME", then "gradient of NAME", parameters in the order of the model.
std::optional<std::string> first_non_finite_tensor(GPT& model);

}  // namespace bov::experiments
