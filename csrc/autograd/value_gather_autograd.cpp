#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <iterator>

#include "csrc/value_gather_call.h"

namespace bov::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

/// Arguments are numbered tensor by tensor: the tables, the ids, the scales, the index, dtype.
struct ValueGatherLayers : torch::autograd::Function<ValueGatherLayers> {
  static variable_list forward(AutogradContext* ctx,
                               at::TensorList tables,
                               const at::Tensor& ids,
                               at::TensorList scales,
                               at::TensorList index,
                               std::optional<at::ScalarType> dtype) {
    variable_list saved(tables.begin(), tables.end());
    saved.push_back(ids);
    saved.insert(saved.end(), scales.begin(), scales.end());
    saved.insert(saved.end(), index.begin(), index.end());
    ctx->save_for_backward(std::move(saved));
    ctx->saved_data["tables"] = static_cast<int64_t>(tables.size());
    ctx->saved_data["scales"] = static_cast<int64_t>(scales.size());
    const at::AutoDispatchBelowADInplaceOrView below;
    return call_value_gather_layers(tables, ids, scales, index, dtype);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list saved = ctx->get_saved_variables();
    const at::TensorList all(saved);
    const size_t tables = ctx->saved_data["tables"].toInt();
    const size_t scales = ctx->saved_data["scales"].toInt();
    const auto any_needed = [ctx](size_t begin, size_t count) {
      for (size_t i = begin; i < begin + count; ++i) {
        if (ctx->needs_input_grad(i)) {
          return true;
        }
      }
      return false;
    };
    const bool table_gradients = any_needed(0, tables);
    const bool scale_gradients = any_needed(tables + 1, scales);
    const auto [table_grads, scale_grads] = call_value_gather_layers_backward(
        grads, all.slice(0, tables), all[tables], all.slice(tables + 1, scales),
        all.slice(tables + 1 + scales), table_gradients, scale_gradients);
    variable_list result(saved.size() + 1);
    for (size_t i = 0; table_gradients && i < tables; ++i) {
      result[i] = table_grads[i];
    }
    for (size_t i = 0; scale_gradients && i < scales; ++i) {
      result[tables + 1 + i] = scale_grads[i];
    }
    return result;
  }
};

struct ValueGatherLayersBackward : torch::autograd::Function<ValueGatherLayersBackward> {
  static variable_list forward(AutogradContext*,
                               at::TensorList grads,
                               at::TensorList tables,
                               const at::Tensor& ids,
                               at::TensorList scales,
                               at::TensorList index,
                               bool table_gradients,
                               bool scale_gradients) {
    const at::AutoDispatchBelowADInplaceOrView below;
    auto [gradients, scale_grads] = call_value_gather_layers_backward(grads, tables, ids, scales, index,
                                                                      table_gradients, scale_gradients);
    std::ranges::move(scale_grads, std::back_inserter(gradients));
    return gradients;
  }

  static variable_list backward(AutogradContext*, const variable_list&) {
    TORCH_CHECK(false, "value_gather: double backward is not implemented");
  }
};

variable_list value_gather_layers_autograd(at::TensorList tables,
                                           const at::Tensor& ids,
                                           at::TensorList scales,
                                           at::TensorList index,
                                           std::optional<at::ScalarType> dtype) {
  return ValueGatherLayers::apply(tables, ids, scales, index, dtype);
}

ValueGatherGradients value_gather_layers_backward_autograd(at::TensorList grads,
                                                           at::TensorList tables,
                                                           const at::Tensor& ids,
                                                           at::TensorList scales,
                                                           at::TensorList index,
                                                           bool table_gradients,
                                                           bool scale_gradients) {
  const variable_list gradients =
      ValueGatherLayersBackward::apply(grads, tables, ids, scales, index, table_gradients, scale_gradients);
  const auto middle = gradients.begin() + std::ssize(tables);
  return {variable_list(gradients.begin(), middle), variable_list(middle, gradients.end())};
}

}  // namespace

TORCH_LIBRARY_IMPL(bov, Autograd, m) {
  m.impl("value_gather_layers", value_gather_layers_autograd);
  m.impl("_value_gather_layers_backward", value_gather_layers_backward_autograd);
}

}  // namespace bov::ops
