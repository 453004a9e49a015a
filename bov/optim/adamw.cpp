#include "bov/optim/adamw.h"

#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>
#include <torch/optim/serialize.h>

#include <map>

namespace bov {
namespace {

/// Parameters that one fused call may update together: it takes one device, one dtype and one step count.
struct Batch {
  std::vector<at::Tensor> parameters, gradients, exp_avgs, exp_avg_sqs;
};
using BatchKey = std::tuple<c10::DeviceType, c10::DeviceIndex, c10::ScalarType, int64_t>;

void validate(const AdamWOptions& options) {
  const auto [beta1, beta2] = options.betas();
  TORCH_CHECK(options.lr() >= 0, "AdamW: lr must be at least 0, got ", options.lr());
  TORCH_CHECK(options.eps() >= 0, "AdamW: eps must be at least 0, got ", options.eps());
  TORCH_CHECK(0 <= beta1 && beta1 < 1, "AdamW: beta1 must be in [0, 1), got ", beta1);
  TORCH_CHECK(0 <= beta2 && beta2 < 1, "AdamW: beta2 must be in [0, 1), got ", beta2);
  TORCH_CHECK(options.weight_decay() >= 0, "AdamW: weight_decay must be at least 0, got ",
              options.weight_decay());
}

/// The fused CPU kernel walks raw memory, so the gradient needs the parameter's strides.
at::Tensor with_strides_of(const at::Tensor& parameter, const at::Tensor& gradient) {
  TORCH_CHECK(gradient.layout() == at::kStrided, "AdamW: gradients must be dense, got layout ",
              gradient.layout());
  if (gradient.strides() == parameter.strides()) return gradient;
  return at::empty_like(parameter).copy_(gradient);
}

void update_batch(Batch& batch, int64_t step, const AdamWOptions& options) {
  // The kernel takes the step count as a float32 tensor on the parameter's device, exact up to 2^24 steps.
  const auto count = at::full({}, static_cast<double>(step), batch.parameters[0].options().dtype(at::kFloat));
  const std::vector<at::Tensor> counts(batch.parameters.size(), count);
  const auto [beta1, beta2] = options.betas();
  at::_fused_adamw_(batch.parameters, batch.gradients, batch.exp_avgs, batch.exp_avg_sqs,
                    /*max_exp_avg_sqs=*/{}, counts, options.lr(), beta1, beta2, options.weight_decay(),
                    options.eps(), /*amsgrad=*/false,
                    /*maximize=*/false);
}

}  // namespace

AdamW::AdamW(const std::vector<torch::optim::OptimizerParamGroup>& groups, AdamWOptions defaults)
    : StatefulOptimizer(groups, std::make_unique<AdamWOptions>(std::move(defaults))) {
  validate(static_cast<const AdamWOptions&>(*defaults_));
  for (const auto& group : param_groups_) validate(static_cast<const AdamWOptions&>(group.options()));
}

AdamWParamState AdamW::initial_state(const torch::Tensor& parameter) const {
  TORCH_CHECK(parameter.is_floating_point() && parameter.is_non_overlapping_and_dense(),
              "AdamW: a parameter must be a dense floating tensor, got ", parameter.toString(), " of sizes ",
              parameter.sizes(), " and strides ", parameter.strides());
  const auto values = parameter.detach();
  return AdamWParamState().exp_avg(at::zeros_like(values)).exp_avg_sq(at::zeros_like(values));
}

void AdamW::update(torch::optim::OptimizerParamGroup& group) {
  std::map<BatchKey, Batch> batches;
  for (const auto& parameter : group.params()) {
    const auto& gradient = parameter.grad();
    if (!gradient.defined() || parameter.numel() == 0) continue;
    auto& state = state_of(parameter);
    state.step(state.step() + 1);
    const auto device = parameter.device();
    auto& batch = batches[{device.type(), device.index(), parameter.scalar_type(), state.step()}];
    batch.parameters.push_back(parameter);
    batch.gradients.push_back(with_strides_of(parameter, gradient));
    batch.exp_avgs.push_back(state.exp_avg());
    batch.exp_avg_sqs.push_back(state.exp_avg_sq());
  }
  for (auto& [key, batch] : batches) {
    update_batch(batch, std::get<int64_t>(key), static_cast<const AdamWOptions&>(group.options()));
  }
}

void AdamWOptions::serialize(torch::serialize::OutputArchive& archive) const {
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(lr);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(betas);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(eps);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(weight_decay);
}

void AdamWOptions::serialize(torch::serialize::InputArchive& archive) {
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, lr);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(betas_t, betas);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, eps);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, weight_decay);
}

void AdamWParamState::serialize(torch::serialize::OutputArchive& archive) const {
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(step);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(exp_avg);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(exp_avg_sq);
}

void AdamWParamState::serialize(torch::serialize::InputArchive& archive) {
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(int64_t, step);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(torch::Tensor, exp_avg);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(torch::Tensor, exp_avg_sq);
}

}  // namespace bov
