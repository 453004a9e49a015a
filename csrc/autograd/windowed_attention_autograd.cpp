#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "csrc/windowed_attention_call.h"

namespace bov::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

struct WindowedAttention : torch::autograd::Function<WindowedAttention> {
  static variable_list forward(
      AutogradContext* ctx, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, int64_t left) {
    at::AutoDispatchBelowADInplaceOrView below;
    const auto [out, logsumexp] = windowed_attention_forward(q, k, v, left);
    ctx->save_for_backward({q, k, v, out, logsumexp});
    ctx->saved_data["left"] = left;
    ctx->mark_non_differentiable({logsumexp});
    return {out, logsumexp};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list saved = ctx->get_saved_variables();
    const auto [q, k, v] = windowed_attention_backward(grads[0], saved[0], saved[1], saved[2], saved[3],
                                                       saved[4], ctx->saved_data["left"].toInt());
    return {q, k, v, Variable()};
  }
};

struct WindowedAttentionBackward : torch::autograd::Function<WindowedAttentionBackward> {
  static variable_list forward(AutogradContext*,
                               const at::Tensor& grad,
                               const at::Tensor& q,
                               const at::Tensor& k,
                               const at::Tensor& v,
                               const at::Tensor& out,
                               const at::Tensor& logsumexp,
                               int64_t left) {
    at::AutoDispatchBelowADInplaceOrView below;
    const auto [q_grad, k_grad, v_grad] = windowed_attention_backward(grad, q, k, v, out, logsumexp, left);
    return {q_grad, k_grad, v_grad};
  }

  static variable_list backward(AutogradContext*, const variable_list&) {
    TORCH_CHECK(false, "_windowed_attention_backward: double backward is not implemented");
  }
};

std::tuple<at::Tensor, at::Tensor> windowed_attention_autograd(const at::Tensor& q,
                                                               const at::Tensor& k,
                                                               const at::Tensor& v,
                                                               int64_t left) {
  const variable_list results = WindowedAttention::apply(q, k, v, left);
  return {results[0], results[1]};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> windowed_attention_backward_autograd(
    const at::Tensor& grad,
    const at::Tensor& q,
    const at::Tensor& k,
    const at::Tensor& v,
    const at::Tensor& out,
    const at::Tensor& logsumexp,
    int64_t left) {
  const variable_list results = WindowedAttentionBackward::apply(grad, q, k, v, out, logsumexp, left);
  return {results[0], results[1], results[2]};
}

}  // namespace

TORCH_LIBRARY_IMPL(bov, Autograd, m) {
  m.impl("_windowed_attention", windowed_attention_autograd);
  m.impl("_windowed_attention_backward", windowed_attention_backward_autograd);
}

}  // namespace bov::ops
