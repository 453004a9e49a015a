#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "csrc/value_gather.h"

namespace bov::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

std::tuple<at::Tensor, at::Tensor> value_gather_backward(const at::Tensor& grad,
                                                         const at::Tensor& table,
                                                         const at::Tensor& ids,
                                                         const std::optional<at::Tensor>& scale,
                                                         bool table_gradient,
                                                         bool scale_gradient) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("bov::_value_gather_backward", "")
                             .typed<decltype(value_gather_backward)>();
  return op.call(grad, table, ids, scale, table_gradient, scale_gradient);
}

std::optional<at::Tensor> optional_of(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional<at::Tensor>(tensor) : std::nullopt;
}

struct ValueGather : torch::autograd::Function<ValueGather> {
  static Variable forward(AutogradContext* ctx,
                          const at::Tensor& table,
                          const at::Tensor& ids,
                          const std::optional<at::Tensor>& scale,
                          std::optional<at::ScalarType> dtype) {
    ctx->save_for_backward({table, ids, scale.value_or(at::Tensor())});
    at::AutoDispatchBelowADInplaceOrView below;
    return value_gather(table, ids, scale, dtype);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list saved = ctx->get_saved_variables();
    const std::optional<at::Tensor> scale = optional_of(saved[2]);
    const bool table_gradient = ctx->needs_input_grad(0);
    // Edges are numbered over the tensors that were passed; an absent scale has none.
    const bool scale_gradient = scale.has_value() && ctx->needs_input_grad(2);
    const auto [table_grad, scale_grad] =
        value_gather_backward(grads[0], saved[0], saved[1], scale, table_gradient, scale_gradient);
    return {table_gradient ? table_grad : Variable(), Variable(), scale_gradient ? scale_grad : Variable(),
            Variable()};
  }
};

struct ValueGatherBackward : torch::autograd::Function<ValueGatherBackward> {
  static variable_list forward(AutogradContext*,
                               const at::Tensor& grad,
                               const at::Tensor& table,
                               const at::Tensor& ids,
                               const std::optional<at::Tensor>& scale,
                               bool table_gradient,
                               bool scale_gradient) {
    at::AutoDispatchBelowADInplaceOrView below;
    const auto [table_grad, scale_grad] =
        value_gather_backward(grad, table, ids, scale, table_gradient, scale_gradient);
    return {table_grad, scale_grad};
  }

  static variable_list backward(AutogradContext*, const variable_list&) {
    TORCH_CHECK(false, "_value_gather_backward: double backward is not implemented");
  }
};

at::Tensor value_gather_autograd(const at::Tensor& table,
                                 const at::Tensor& ids,
                                 const std::optional<at::Tensor>& scale,
                                 std::optional<at::ScalarType> dtype) {
  return ValueGather::apply(table, ids, scale, dtype);
}

std::tuple<at::Tensor, at::Tensor> value_gather_backward_autograd(const at::Tensor& grad,
                                                                  const at::Tensor& table,
                                                                  const at::Tensor& ids,
                                                                  const std::optional<at::Tensor>& scale,
                                                                  bool table_gradient,
                                                                  bool scale_gradient) {
  const variable_list gradients =
      ValueGatherBackward::apply(grad, table, ids, scale, table_gradient, scale_gradient);
  return {gradients[0], gradients[1]};
}

}  // namespace

TORCH_LIBRARY_IMPL(bov, Autograd, m) {
  m.impl("value_gather", value_gather_autograd);
  m.impl("_value_gather_backward", value_gather_backward_autograd);
}

}  // namespace bov::ops
