#include "experiments/train/model_probe.h"

#include <ATen/ATen.h>

#include "bov/model/block.h"

namespace bov::experiments {
namespace {

ValueMixerImpl& value_of(GPT& model, int64_t layer) {
  return *model->blocks->at<BlockImpl>(static_cast<size_t>(layer)).attention->value;
}

bool all_finite(const at::Tensor& tensor) {
  return at::isfinite(tensor.detach()).all().item<bool>();
}

}  // namespace

nlohmann::json value_coefficients(GPT& model) {
  auto by_layer = nlohmann::json::object();
  for (const int64_t layer : model->target_layers()) {
    const ValueMixerImpl& value = value_of(model, layer);
    auto entry = nlohmann::json::object();
    if (value.gamma.defined()) entry["gamma"] = value.gamma.item<double>();
    if (value.alpha.defined()) entry["alpha"] = value.alpha.item<double>();
    if (value.beta.defined()) entry["beta"] = value.beta.item<double>();
    if (const auto gate = value.gate_statistics()) {
      entry["gate_mean"] = gate->mean;
      entry["gate_std"] = gate->deviation;
    }
    if (!entry.empty()) by_layer[std::to_string(layer)] = entry;
  }
  return by_layer;
}

void record_gates(GPT& model, bool on) {
  for (const int64_t layer : model->target_layers()) value_of(model, layer).record_gate(on);
}

std::optional<std::string> first_non_finite_tensor(GPT& model) {
  const auto parameters = model->named_parameters();
  for (const auto& parameter : parameters) {
    if (!all_finite(parameter.value())) return "parameter " + parameter.key();
  }
  for (const auto& parameter : parameters) {
    const auto gradient = parameter.value().grad();
    if (gradient.defined() && !all_finite(gradient)) return "gradient of " + parameter.key();
  }
  return std::nullopt;
}

}  // namespace bov::experiments
