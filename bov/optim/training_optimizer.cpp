#include "bov/optim/training_optimizer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/scalar_tensor.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <memory>

namespace bov {
namespace {

template <class Options>
std::vector<torch::optim::OptimizerParamGroup> torch_groups(const std::vector<ParameterGroup>& groups) {
  std::vector<torch::optim::OptimizerParamGroup> result;
  for (const auto& group : groups) {
    if (const auto* options = std::get_if<Options>(&group.options)) {
      result.emplace_back(group.parameters, std::make_unique<Options>(*options));
    }
  }
  return result;
}

double base_learning_rate(const ParameterGroup& group) {
  return std::visit([](const auto& options) { return options.lr(); }, group.options);
}

std::vector<ParameterGroup> groups_with_polar_dtype(std::vector<ParameterGroup> groups, torch::Dtype dtype) {
  for (auto& group : groups) {
    if (auto* muon = std::get_if<MuonOptions>(&group.options)) muon->polar_dtype(dtype);
  }
  return groups;
}

/// Throws unless `found` may be copied into the entry `name`.
void check_entry(const std::string& name, const at::Tensor& expected, const at::Tensor& found) {
  TORCH_CHECK(
      found.defined() && found.sizes() == expected.sizes() && found.scalar_type() == expected.scalar_type(),
      "optimizer state: '", name, "' must be ", expected.scalar_type(), " of sizes ", expected.sizes(),
      ", got ", found.defined() ? found.toString() : "nothing", " of sizes ",
      found.defined() ? found.sizes() : at::IntArrayRef());
}

}  // namespace

TrainingOptimizer::TrainingOptimizer(const torch::OrderedDict<std::string, at::Tensor>& named_parameters,
                                     int64_t n_embd,
                                     const OptimizerRates& rates,
                                     const TrainingSchedule& schedule,
                                     torch::Dtype muon_dtype)
    : groups_(
          groups_with_polar_dtype(published_parameter_groups(named_parameters, n_embd, rates), muon_dtype)),
      schedule_(schedule),
      adamw_(torch_groups<AdamWOptions>(groups_)),
      muon_(torch_groups<MuonOptions>(groups_)) {
  schedule_.validate();
  for (const auto& group : groups_) {
    const bool is_muon = std::holds_alternative<MuonOptions>(group.options);
    for (size_t i = 0; i < group.names.size(); ++i) {
      const auto& name = group.names[i];
      if (is_muon) {
        auto& state = muon_.state_of(group.parameters[i]);
        state_tensors_[name + ".momentum_buffer"] = state.momentum_buffer();
        state_tensors_[name + ".second_moment"] = state.second_moment();
      } else {
        auto& state = adamw_.state_of(group.parameters[i]);
        state_tensors_[name + ".exp_avg"] = state.exp_avg();
        state_tensors_[name + ".exp_avg_sq"] = state.exp_avg_sq();
        step_counts_[name + ".step"] = &state;
      }
    }
  }
}

void TrainingOptimizer::zero_grad() {
  adamw_.zero_grad();
  muon_.zero_grad();
}

void TrainingOptimizer::step(int64_t it) {
  TORCH_CHECK(0 <= it && it < schedule_.steps, "TrainingOptimizer: iteration must be in [0, ",
              schedule_.steps - 1, "], got ", it);
  // groups_ lists AdamW's groups first, then Muon's, each in the order of the torch optimizer.
  auto adamw_group = adamw_.param_groups().begin();
  auto muon_group = muon_.param_groups().begin();
  for (const auto& group : groups_) {
    const double learning_rate = base_learning_rate(group) * schedule_.learning_rate(it);
    if (std::holds_alternative<AdamWOptions>(group.options)) {
      (adamw_group++)->options().set_lr(learning_rate);
    } else {
      auto& options = static_cast<MuonOptions&>((muon_group++)->options());
      options.lr(learning_rate).momentum(schedule_.muon_momentum(it)).weight_decay(muon_weight_decay(it));
    }
  }
  adamw_.step();
  muon_.step();
}

const ParameterGroup& TrainingOptimizer::group_of(ParameterRole role) const {
  const auto group =
      std::find_if(groups_.begin(), groups_.end(), [&](const auto& g) { return g.role == role; });
  TORCH_CHECK(group != groups_.end(), "TrainingOptimizer: no parameter has the role '", to_string(role), "'");
  return *group;
}

double TrainingOptimizer::learning_rate(ParameterRole role, int64_t it) const {
  return base_learning_rate(group_of(role)) * schedule_.learning_rate(it);
}

double TrainingOptimizer::muon_weight_decay(int64_t it) const {
  const auto& options = std::get<MuonOptions>(group_of(ParameterRole::kMatrix).options);
  return options.weight_decay() * schedule_.muon_weight_decay(it);
}

std::map<std::string, double> TrainingOptimizer::rates(int64_t it) const {
  std::map<std::string, double> result;
  for (const auto& group : groups_) {
    result[to_string(group.role)] = learning_rate(group.role, it);
    if (group.role != ParameterRole::kMatrix) continue;
    result["muon_momentum"] = schedule_.muon_momentum(it);
    result["muon_weight_decay"] = muon_weight_decay(it);
  }
  return result;
}

std::map<std::string, at::Tensor> TrainingOptimizer::state() const {
  auto result = state_tensors_;
  for (const auto& [name, state] : step_counts_) {
    result[name] = at::scalar_tensor(state->step(), at::kLong);
  }
  return result;
}

void TrainingOptimizer::load_state(const std::map<std::string, at::Tensor>& loaded) {
  const auto current = state();
  for (const auto& [name, tensor] : current) {
    const auto entry = loaded.find(name);
    TORCH_CHECK(entry != loaded.end(), "optimizer state: '", name, "' is missing");
    check_entry(name, tensor, entry->second);
  }
  for (const auto& [name, tensor] : loaded) {
    TORCH_CHECK(current.contains(name), "optimizer state: '", name,
                "' belongs to no parameter of this model");
  }
  std::map<std::string, int64_t> steps;
  for (const auto& [name, state] : step_counts_) {
    steps[name] = loaded.at(name).item<int64_t>();
    TORCH_CHECK(steps[name] >= 0, "optimizer state: '", name, "' must be at least 0, got ", steps[name]);
  }
  const at::NoGradGuard no_grad;
  for (auto& [name, tensor] : state_tensors_) tensor.copy_(loaded.at(name));
  for (const auto& [name, state] : step_counts_) state->step(steps[name]);
}

}  // namespace bov
