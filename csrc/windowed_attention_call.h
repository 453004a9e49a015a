#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <tuple>

/// The two halves of windowed_attention as the dispatcher has them.
namespace bov::ops {

inline std::tuple<at::Tensor, at::Tensor> windowed_attention_forward(const at::Tensor& q,
                                                                     const at::Tensor& k,
                                                                     const at::Tensor& v,
                                                                     int64_t left) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("bov::_windowed_attention", "")
                             .typed<decltype(windowed_attention_forward)>();
  return op.call(q, k, v, left);
}

inline std::tuple<at::Tensor, at::Tensor, at::Tensor> windowed_attention_backward(const at::Tensor& grad,
                                                                                  const at::Tensor& q,
                                                                                  const at::Tensor& k,
                                                                                  const at::Tensor& v,
                                                                                  const at::Tensor& out,
                                                                                  const at::Tensor& logsumexp,
                                                                                  int64_t left) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("bov::_windowed_attention_backward", "")
                             .typed<decltype(windowed_attention_backward)>();
  return op.call(grad, q, k, v, out, logsumexp, left);
}

}  // namespace bov::ops
