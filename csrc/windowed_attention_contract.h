#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>
#include <c10/core/SymInt.h>
#include <c10/util/Exception.h>

#include <cstdint>

#include "csrc/value_dtype.h"

/// What windowed_attention accepts, said once and called on every backend.
namespace bov::ops {

/// Throws c10::Error unless the arguments are as windowed_attention.h says.
inline void check_windowed_attention(const at::Tensor& q,
                                     const at::Tensor& k,
                                     const at::Tensor& v,
                                     int64_t left) {
  TORCH_CHECK(q.dim() == 4 && k.dim() == 4 && v.dim() == 4,
              "windowed_attention: q, k and v must be [B, T, heads, D], got ", q.sym_sizes(), ", ",
              k.sym_sizes(), " and ", v.sym_sizes());
  TORCH_CHECK(is_value_dtype(q.scalar_type()),
              "windowed_attention: q must be float64, float32, bfloat16 or float16, got ", q.scalar_type());
  TORCH_CHECK(k.scalar_type() == q.scalar_type() && v.scalar_type() == q.scalar_type(),
              "windowed_attention: q, k and v must have one dtype, got ", q.scalar_type(), ", ",
              k.scalar_type(), " and ", v.scalar_type());
  TORCH_CHECK(k.device() == q.device() && v.device() == q.device(),
              "windowed_attention: q, k and v must be on one device, got ", q.device(), ", ", k.device(),
              " and ", v.device());
  TORCH_CHECK(k.sym_sizes() == v.sym_sizes(), "windowed_attention: k and v must have one shape, got ",
              k.sym_sizes(), " and ", v.sym_sizes());
  TORCH_CHECK(
      q.sym_size(0) == k.sym_size(0) && q.sym_size(1) == k.sym_size(1) && q.sym_size(3) == k.sym_size(3),
      "windowed_attention: q and k differ in B, T or D: ", q.sym_sizes(), " and ", k.sym_sizes());
  TORCH_CHECK(k.sym_size(2) > 0 && q.sym_size(2) % k.sym_size(2) == 0,
              "windowed_attention: the number of query heads (", q.sym_size(2),
              ") must be a multiple of the number of kv heads (", k.sym_size(2), ")");
  TORCH_CHECK(left >= 0, "windowed_attention: left must be 0 or more, got ", left);
}

/// The same for the backward op: grad and out have the shape and dtype of q, logsumexp is what the forward op gives.
inline void check_windowed_attention_backward(const at::Tensor& grad,
                                              const at::Tensor& q,
                                              const at::Tensor& k,
                                              const at::Tensor& v,
                                              const at::Tensor& out,
                                              const at::Tensor& logsumexp,
                                              int64_t left) {
  check_windowed_attention(q, k, v, left);
  for (const at::Tensor* tensor : {&grad, &out}) {
    TORCH_CHECK(tensor->sym_sizes() == q.sym_sizes() && tensor->scalar_type() == q.scalar_type() &&
                    tensor->device() == q.device(),
                "_windowed_attention_backward: grad and out must be like q, got ", tensor->sym_sizes(), " ",
                tensor->scalar_type(), " on ", tensor->device());
  }
  TORCH_CHECK(logsumexp.dim() == 3 && logsumexp.sym_size(0) == q.sym_size(0) &&
                  logsumexp.sym_size(1) == q.sym_size(2) && logsumexp.sym_size(2) == q.sym_size(1),
              "_windowed_attention_backward: logsumexp must be [B, heads, T], got ", logsumexp.sym_sizes());
  const at::ScalarType compute = compute_type(q.scalar_type());
  TORCH_CHECK(logsumexp.scalar_type() == compute && logsumexp.device() == q.device(),
              "_windowed_attention_backward: logsumexp must be ", compute, " on ", q.device(), ", got ",
              logsumexp.scalar_type(), " on ", logsumexp.device());
}

}  // namespace bov::ops
