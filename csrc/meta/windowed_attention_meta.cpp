#include <ATen/ATen.h>
#include <torch/library.h>

#include "csrc/windowed_attention_contract.h"

namespace bov::ops {
namespace {

std::tuple<at::Tensor, at::Tensor> windowed_attention_meta(const at::Tensor& q,
                                                           const at::Tensor& k,
                                                           const at::Tensor& v,
                                                           int64_t left) {
  check_windowed_attention(q, k, v, left);
  return {at::empty_symint(q.sym_sizes(), q.options()),
          at::empty_symint({q.sym_size(0), q.sym_size(2), q.sym_size(1)},
                           q.options().dtype(compute_type(q.scalar_type())))};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> windowed_attention_backward_meta(const at::Tensor& grad,
                                                                                const at::Tensor& q,
                                                                                const at::Tensor& k,
                                                                                const at::Tensor& v,
                                                                                const at::Tensor& out,
                                                                                const at::Tensor& logsumexp,
                                                                                int64_t left) {
  check_windowed_attention_backward(grad, q, k, v, out, logsumexp, left);
  const auto like = [](const at::Tensor& x) { return at::empty_symint(x.sym_sizes(), x.options()); };
  return {like(q), like(k), like(v)};
}

}  // namespace

TORCH_LIBRARY_IMPL(bov, Meta, m) {
  m.impl("_windowed_attention", windowed_attention_meta);
  m.impl("_windowed_attention_backward", windowed_attention_backward_meta);
}

}  // namespace bov::ops
