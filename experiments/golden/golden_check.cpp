#include "experiments/golden/golden_check.h"

#include <cmath>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "bov/io/module_state.h"
#include "bov/io/nanochat_names.h"
#include "bov/io/safetensors.h"
#include "bov/model/accounting.h"
#include "bov/model/gpt.h"
#include "bov/optim/training_optimizer.h"
#include "bov/value/presets.h"

namespace bov::experiments {
namespace {

using nlohmann::json;

// The optimizer runs of the golden files: a schedule of 20 steps of which the first few are taken.
constexpr int64_t kScheduleSteps = 20;
constexpr int64_t kWarmupSteps = 2;

ValueSpec value_spec(const json& axes) {
  if (axes.contains("preset")) return value_preset(axes.at("preset"));
  ValueSpec spec;
  spec.combine = parse_value_combine(axes.at("combine"));
  spec.source = axes.at("source");
  spec.layers = parse_target_rule(axes.at("layers"));
  const json& coefficient = axes.at("coefficient");
  spec.coefficient = coefficient.is_string() ? parse_value_coefficient(coefficient.get<std::string>())
                                             : ValueCoefficient::fixed(coefficient.get<double>());
  spec.shared = axes.value("shared", false);
  if (axes.contains("init")) spec.init = parse_bank_init(axes.at("init"));
  return spec;
}

GPTOptions gpt_options(const json& entry, torch::Dtype dtype) {
  const json& shape = entry.at("shape");
  GPTOptions options;
  options.sequence_length = shape.at("sequence_len");
  options.vocab_size = shape.at("vocab_size");
  options.n_layer = shape.at("n_layer");
  options.n_head = shape.at("n_head");
  options.n_kv_head = shape.at("n_kv_head");
  options.n_embd = shape.at("n_embd");
  options.window_pattern = shape.at("window_pattern");
  options.value = value_spec(entry.at("value"));
  options.parameter_dtype = options.table_dtype = options.compute_dtype = dtype;
  return options;
}

template <typename T>
void require_equal(const std::string& file, const char* what, const T& ours, const T& expected) {
  if (ours != expected) {
    throw std::runtime_error(
        c10::str(file, ": ", what, " is ", ours, " here and ", expected, " in index.json"));
  }
}

void check_accounting(const json& entry, const GPTOptions& options, const GPT& model) {
  const std::string file = entry.at("file");
  require_equal(file, "flops_per_token", flops_per_token(options),
                static_cast<int64_t>(entry.at("flops_per_token").get<double>()));
  require_equal(file, "the number of parameters", count_parameters(options).total_as_published(),
                entry.at("params").at("total").get<int64_t>());
  // A standard model has no targets; the index lists the default rule's for it all the same.
  if (!entry.at("value").contains("preset")) {
    require_equal(file, "target_layers", model->target_layers(),
                  entry.at("target_layers").get<std::vector<int64_t>>());
  }
}

/// The tensors of a golden file under one prefix, without it.
TensorMap with_prefix(const SafetensorsReader& reader, const std::string& prefix) {
  TensorMap tensors;
  for (const auto& [name, info] : reader.tensors()) {
    if (name.starts_with(prefix)) tensors[name.substr(prefix.size())] = reader.tensor(name);
  }
  return tensors;
}

/// The larger of two errors; NaN is larger than any number.
double larger_error(double a, double b) {
  return std::isnan(a) || a > b ? a : b;
}

double relative_error(const torch::Tensor& ours, const torch::Tensor& golden) {
  const torch::Tensor expected = golden.to(torch::kFloat64);
  const double scale = expected.norm().item<double>();
  const double difference = (ours.detach().to(torch::kFloat64) - expected).norm().item<double>();
  return difference == 0.0 ? 0.0 : difference / scale;
}

/// Golden tensors of the parameters that the model has, compared group by group. Gradients exist for live parameters
/// alone and under published names.
void compare(const std::string& prefix,
             const torch::nn::Module& model,
             const TensorMap& golden,
             const GPTOptions& options,
             const std::function<torch::Tensor(const torch::Tensor&)>& ours,
             GoldenErrors& errors) {
  for (const auto& parameter : model.named_parameters()) {
    const auto found = golden.find(to_nanochat(parameter.key(), options));
    if (found == golden.end())
      throw std::runtime_error(errors.file + ": no " + prefix + to_nanochat(parameter.key(), options));
    double& worst = errors.by_group[prefix + to_string(parameter_role(parameter.key()))];
    const double error = relative_error(ours(parameter.value()), found->second);
    worst = larger_error(worst, error);
  }
}

GoldenErrors check_file(const std::filesystem::path& directory, const json& entry, torch::Dtype dtype) {
  GoldenErrors errors{.file = entry.at("file"), .paper_rows = entry.value("paper_rows", "")};
  const GPTOptions options = gpt_options(entry, dtype);
  GPT model(options);
  check_accounting(entry, options, model);
  errors.flops_per_token = flops_per_token(options);

  const SafetensorsReader reader(directory / errors.file);
  load_parameters(*model, import_nanochat(with_prefix(reader, "init/"), options).parameters,
                  /*convert_dtype=*/true);
  const torch::Tensor ids = reader.tensor("ids");
  const int64_t length = ids.size(2) - 1;
  const auto inputs = [&](int64_t batch) { return ids[batch].slice(1, 0, length); };
  const auto targets = [&](int64_t batch) { return ids[batch].slice(1, 1); };
  {
    torch::NoGradGuard no_grad;
    errors.by_group["logits"] = relative_error(model->forward(inputs(0)), reader.tensor("logits"));
  }

  const int64_t steps = entry.at("steps");
  TrainingOptimizer optimizer(model->named_parameters(), options.n_embd, {},
                              {.steps = kScheduleSteps, .warmup_steps = kWarmupSteps}, dtype);
  const torch::Tensor golden_losses = reader.tensor("losses");
  torch::Tensor losses = torch::empty_like(golden_losses);
  for (int64_t step = 0; step < steps; ++step) {
    optimizer.zero_grad();
    const torch::Tensor loss = model->loss(inputs(step), targets(step));
    loss.backward();
    losses[step].copy_(loss.detach());
    if (step == 0) {
      compare(
          "grad/", *model, with_prefix(reader, "grad/"), options,
          [](const torch::Tensor& p) { return p.grad().defined() ? p.grad() : torch::zeros_like(p); },
          errors);
    }
    optimizer.step(step);
  }
  errors.by_group["losses"] = relative_error(losses, golden_losses);
  compare(
      "after/", *model, with_prefix(reader, "after" + std::to_string(steps) + "/"), options,
      [](const torch::Tensor& p) { return p; }, errors);
  return errors;
}

}  // namespace

double GoldenErrors::largest() const {
  double worst = 0;
  for (const auto& [group, error] : by_group) worst = larger_error(worst, error);
  return worst;
}

std::vector<GoldenErrors> check_golden(const std::filesystem::path& directory, torch::Dtype dtype) {
  const std::filesystem::path index_path = directory / "index.json";
  std::ifstream file(index_path);
  if (!file)
    throw std::runtime_error(index_path.string() +
                             ": cannot be read; expected a folder with an index.json of golden files");
  std::vector<GoldenErrors> results;
  try {
    const json index = json::parse(file);
    if (!index.is_array() || index.empty()) {
      throw std::runtime_error(index_path.string() + ": lists no golden files; expected a non-empty list");
    }
    for (const json& entry : index) results.push_back(check_file(directory, entry, dtype));
  } catch (const json::exception& error) {
    throw std::runtime_error(index_path.string() + ": " + error.what());
  }
  return results;
}

}  // namespace bov::experiments
