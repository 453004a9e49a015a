#pragma once

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>
#include <torch/autograd.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <vector>

namespace bov::testing {

/// How finely gradient_error() looks.
struct GradientErrorOptions {
  /// Step of the central difference, times max(1, |x|). The cube root of the float64 epsilon makes its
  /// truncation and its rounding error alike, about 1e-10 of the function's scale.
  double step = 6e-6;
  /// Entries tried in each tensor, spread evenly over it; all of them when it has fewer.
  int64_t max_entries = 1000;
};

/// View of entry `flat` (row-major count) of a tensor of any strides.
inline at::Tensor entry_view(const at::Tensor& tensor, int64_t flat) {
  at::Tensor entry = tensor.detach();
  int64_t stride = tensor.numel();
  for (const int64_t size : tensor.sizes()) {
    stride /= size;
    entry = entry.select(0, flat / stride);
    flat %= stride;
  }
  return entry;
}

/// Largest error of autograd's gradients of `function` against central differences.
///
/// `function` maps the tensors to a one-element float64 tensor. It may read `inputs` or own them (parameters
/// of a module): entries are changed in place and restored. Every floating point input must be a float64
/// leaf; it is made to require a gradient. Other inputs (token ids) are passed on untouched. An input that
/// autograd does not reach has gradient zero.
///
/// The error of one tensor is max |autograd - numeric| over its entries, divided by the largest gradient
/// entry of that tensor or by 1e-3 |function| if that is larger: below it a central difference is rounding
/// noise.
inline double gradient_error(const std::function<at::Tensor(const std::vector<at::Tensor>&)>& function,
                             const std::vector<at::Tensor>& inputs,
                             const GradientErrorOptions& options = {}) {
  std::vector<at::Tensor> variables;
  for (const at::Tensor& input : inputs) {
    if (input.is_floating_point()) {
      TORCH_CHECK(input.scalar_type() == at::kDouble && input.is_leaf(),
                  "gradient_error: inputs must be float64 leaves, got ", input.toString(), " ",
                  input.sizes());
      variables.push_back(input.requires_grad_(true));
    }
  }
  const at::Tensor value = function(inputs);
  TORCH_CHECK(value.numel() == 1 && value.scalar_type() == at::kDouble,
              "gradient_error: the function must give one float64 number, got ", value.toString(), " ",
              value.sizes());
  const auto gradients = torch::autograd::grad({value.sum()}, variables,
                                               /*grad_outputs=*/{},
                                               /*retain_graph=*/std::nullopt,
                                               /*create_graph=*/false,
                                               /*allow_unused=*/true);

  c10::NoGradGuard no_grad;
  const double value_scale = 1e-3 * std::abs(value.item<double>());
  double worst = 0.0;
  for (size_t i = 0; i < variables.size(); ++i) {
    const at::Tensor& variable = variables[i];
    const int64_t numel = variable.numel();
    const int64_t tried = std::min(numel, options.max_entries);
    const at::Tensor gradient =
        gradients[i].defined() ? gradients[i].contiguous() : at::zeros(variable.sizes(), variable.options());
    double largest_difference = 0.0;
    double scale = value_scale;
    for (int64_t k = 0; k < tried; ++k) {
      const int64_t flat = k * numel / tried;
      const at::Tensor entry = entry_view(variable, flat);
      const double x = entry.item<double>();
      const double step = options.step * std::max(1.0, std::abs(x));
      entry.fill_(x + step);
      const double above = function(inputs).item<double>();
      entry.fill_(x - step);
      const double below = function(inputs).item<double>();
      entry.fill_(x);
      const double numeric = (above - below) / ((x + step) - (x - step));
      const double automatic = gradient.view(-1)[flat].item<double>();
      if (std::isnan(numeric) || std::isnan(automatic)) {
        return std::nan("");
      }
      largest_difference = std::max(largest_difference, std::abs(automatic - numeric));
      scale = std::max({scale, std::abs(automatic), std::abs(numeric)});
    }
    if (largest_difference > 0.0) {
      worst = std::max(worst, largest_difference / scale);
    }
  }
  return worst;
}

}  // namespace bov::testing
