#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/string_view.h>

#include <cstdint>
#include <optional>

namespace bov::ops {

/// The operator as the dispatcher has it, with its algorithm as a string; for its wrapper and for the kernels
/// that pass it on.
inline at::Tensor call_bank_attention(const at::Tensor& q,
                                      const at::Tensor& keys,
                                      const at::Tensor& table,
                                      const at::Tensor& ids,
                                      const at::Tensor& lengths,
                                      int64_t left,
                                      const std::optional<at::Tensor>& scale,
                                      const std::optional<at::Tensor>& row_scale,
                                      c10::string_view algorithm) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("bov::bank_attention", "")
                             .typed<decltype(call_bank_attention)>();
  return op.call(q, keys, table, ids, lengths, left, scale, row_scale, algorithm);
}

}  // namespace bov::ops
