#include "experiments/train/model_probe.h"

#include <ATen/ATen.h>

#include "bov/model/block.h"

namespace bov::experiments {
namespace {

ValueMixerImpl& value_of(GPT& model, int64_t layer) {
  return *model->blocks->at<BlockImpl>(static_cast<size_t>(layer)).attention->value;
}

/// A coefficient of each head is one entry a head: "gamma_0", "gamma_1", ...
void add_coefficient(nlohmann::json& entry, const std::string& name, const at::Tensor& coefficient) {
  if (!coefficient.defined()) return;
  const auto values = coefficient.detach().to(at::kCPU, at::kDouble);
  for (int64_t head = 0; head < values.numel(); ++head) {
    entry[values.numel() == 1 ? name : name + "_" + std::to_string(head)] = values[head].item<double>();
  }
}

void record_gates(GPT& model, bool on) {
  for (const int64_t layer : model->target_layers()) value_of(model, layer).record_gate(on);
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
    add_coefficient(entry, "gamma", value.gamma);
    add_coefficient(entry, "alpha", value.alpha);
    add_coefficient(entry, "beta", value.beta);
    if (const auto gate = value.gate_statistics()) {
      entry["gate_mean"] = gate->mean;
      entry["gate_std"] = gate->deviation;
    }
    if (!entry.empty()) by_layer[std::to_string(layer)] = entry;
  }
  return by_layer;
}

GateRecording::GateRecording(GPT& model, bool on) : model_(model), on_(on) {
  if (on_) record_gates(model_, true);
}

GateRecording::~GateRecording() {
  if (on_) record_gates(model_, false);
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
