#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include "csrc/bank_attention_call.h"

namespace bov::ops {
namespace {

void refuse_gradient(const char* name, const at::Tensor& tensor) {
  TORCH_CHECK(!tensor.requires_grad(), "bank_attention: is not differentiable, but ", name,
              " requires a gradient; call it where gradients are not recorded, or detach ", name);
}

at::Tensor bank_attention_autograd(const at::Tensor& q,
                                   const at::Tensor& keys,
                                   const at::Tensor& table,
                                   const at::Tensor& ids,
                                   const at::Tensor& lengths,
                                   int64_t left,
                                   const std::optional<at::Tensor>& scale,
                                   const std::optional<at::Tensor>& row_scale,
                                   c10::string_view algorithm) {
  if (at::GradMode::is_enabled()) {
    refuse_gradient("q", q);
    refuse_gradient("keys", keys);
    refuse_gradient("table", table);
    if (scale.has_value()) {
      refuse_gradient("scale", *scale);
    }
    if (row_scale.has_value()) {
      refuse_gradient("row_scale", *row_scale);
    }
  }
  at::AutoDispatchBelowADInplaceOrView below;
  return call_bank_attention(q, keys, table, ids, lengths, left, scale, row_scale, algorithm);
}

}  // namespace

TORCH_LIBRARY_IMPL(bov, Autograd, m) {
  m.impl("bank_attention", bank_attention_autograd);
}

}  // namespace bov::ops
