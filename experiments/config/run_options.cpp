#include "experiments/config/run_options.h"

#include <torch/cuda.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "bov/model/accounting.h"

namespace bov::experiments {
namespace {

torch::Dtype parse_dtype(const std::string& text, c10::DeviceType device) {
  if (text == "auto") {
    return device == c10::DeviceType::CUDA ? torch::kBFloat16 : torch::kFloat32;
  }
  if (text == "float32") {
    return torch::kFloat32;
  }
  if (text == "bfloat16") {
    return torch::kBFloat16;
  }
  if (text == "float64") {
    return torch::kFloat64;
  }
  throw std::runtime_error("dtype is \"" + text + "\"; expected auto, float32, bfloat16 or float64");
}

// `text` as a device; `name` says where it was asked for.
c10::Device device_of(const std::string& name, const std::string& text) {
  if (text == "auto") {
    return torch::cuda::is_available() ? c10::Device("cuda") : c10::Device("cpu");
  }
  const c10::Device device(text);
  const auto seen = static_cast<int64_t>(torch::cuda::device_count());
  if (device.is_cuda() && std::max<int64_t>(device.index(), 0) >= seen) {
    throw std::runtime_error(name + " is \"" + text + "\"; LibTorch sees " + std::to_string(seen) +
                             " CUDA devices");
  }
  return device;
}

std::string budgets_set(const BudgetConfig& budget) {
  std::string names;
  const auto add = [&](bool set, const char* name) {
    names += set ? (names.empty() ? "" : " and ") + std::string(name) : "";
  };
  add(budget.flops.has_value(), "flops");
  add(budget.tokens.has_value(), "tokens");
  add(budget.steps.has_value(), "steps");
  return names;
}

}  // namespace

c10::Device resolve_device(const TrainConfig& train) {
  return device_of("train.device", train.device);
}

c10::Device resolve_device(TrainConfig train, const std::string& wanted) {
  if (!wanted.empty() && train.device != "auto" && train.device != wanted) {
    throw std::runtime_error("train.device is \"" + train.device + "\", but the device asked for is \"" +
                             wanted + "\"; expected the same, or auto in the config");
  }
  if (wanted.empty()) return resolve_device(train);
  train.device = wanted;
  return device_of("--device", train.device);
}

GPTOptions to_gpt_options(const RunConfig& config, c10::DeviceType device) {
  const ModelConfig& model = config.model;
  GPTOptions options;
  options.sequence_length = model.sequence_length;
  options.vocab_size = model.vocab_size;
  options.n_layer = model.n_layer;
  options.n_head = model.n_head;
  options.n_kv_head = model.n_kv_head;
  options.n_embd = model.n_embd;
  options.window_pattern = model.window_pattern;
  options.rotary_base = model.rotary_base;
  options.qk_scale = model.qk_scale;
  options.logit_softcap = model.logit_softcap;
  options.smear = model.smear;
  options.value = config.value;
  options.parameter_dtype = parse_dtype(model.parameter_dtype, device);
  options.table_dtype = parse_dtype(model.table_dtype, device);
  options.compute_dtype = parse_dtype(model.compute_dtype, device);
  return options;
}

torch::Dtype resolve_muon_dtype(const OptimizerConfig& optimizer, c10::DeviceType device) {
  return parse_dtype(optimizer.muon_dtype, device);
}

int64_t resolve_steps(const RunConfig& config) {
  const BudgetConfig& budget = config.budget;
  const std::string set = budgets_set(budget);
  if (set.empty() || set.find(' ') != std::string::npos) {
    throw std::runtime_error("budget sets " + (set.empty() ? "nothing" : set) +
                             "; expected exactly one of flops, tokens and steps");
  }
  const int64_t tokens_per_step = config.train.tokens_per_step;
  if (budget.flops) {
    const int64_t per_token = flops_per_token(to_gpt_options(config, c10::DeviceType::CPU));
    return steps_for_flops(*budget.flops, per_token, tokens_per_step);
  }
  if (budget.tokens) {
    const double steps = static_cast<double>(*budget.tokens) / static_cast<double>(tokens_per_step);
    return std::max<int64_t>(1, std::llrint(std::nearbyint(steps)));
  }
  return *budget.steps;
}

}  // namespace bov::experiments
