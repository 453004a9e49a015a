#include "csrc/windowed_attention.h"

#include <torch/library.h>

#include "csrc/windowed_attention_call.h"
#include "csrc/windowed_attention_contract.h"

namespace bov::ops {
namespace {

at::Tensor windowed_attention_composite(const at::Tensor& q,
                                        const at::Tensor& k,
                                        const at::Tensor& v,
                                        int64_t left) {
  check_windowed_attention(q, k, v, left);
  return std::get<0>(windowed_attention_forward(q, k, v, left));
}

}  // namespace

at::Tensor windowed_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, int64_t left) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("bov::windowed_attention", "")
                             .typed<decltype(windowed_attention)>();
  return op.call(q, k, v, left);
}

TORCH_LIBRARY_FRAGMENT(bov, m) {
  m.def("windowed_attention(Tensor q, Tensor k, Tensor v, int left) -> Tensor", {at::Tag::pt2_compliant_tag});
  m.impl("windowed_attention",
         torch::dispatch(c10::DispatchKey::CompositeImplicitAutograd, windowed_attention_composite));
  // The result, and the logarithm of each query's sum of exponentiated scores, [B, H, T], for the backward pass.
  m.def("_windowed_attention(Tensor q, Tensor k, Tensor v, int left) -> (Tensor, Tensor)",
        {at::Tag::pt2_compliant_tag});
  // Gradients of q, k and v.
  m.def(
      "_windowed_attention_backward(Tensor grad, Tensor q, Tensor k, Tensor v, Tensor out, Tensor logsumexp, "
      "int left) -> (Tensor, Tensor, Tensor)",
      {at::Tag::pt2_compliant_tag});
}

}  // namespace bov::ops
