#include <ATen/autocast_mode.h>
#include <torch/library.h>

#include "csrc/bank_attention_call.h"

namespace bov::ops {
namespace {

/// Casts q, whose dtype the result has, as attention under autocast does. Keys and table stay as they are:
/// casting them would copy a cache and a table at each step.
template <at::DeviceType device>
at::Tensor bank_attention_autocast(const at::Tensor& q,
                                   const at::Tensor& keys,
                                   const at::Tensor& table,
                                   const at::Tensor& ids,
                                   const at::Tensor& lengths,
                                   int64_t left,
                                   const std::optional<at::Tensor>& scale,
                                   const std::optional<at::Tensor>& row_scale,
                                   c10::string_view algorithm) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(
      at::autocast::get_autocast_dispatch_key_from_device_type(device));
  const at::Tensor cast = at::autocast::cached_cast(at::autocast::get_autocast_dtype(device), q, device);
  return call_bank_attention(cast, keys, table, ids, lengths, left, scale, row_scale, algorithm);
}

}  // namespace

TORCH_LIBRARY_IMPL(bov, AutocastCPU, m) {
  m.impl("bank_attention", bank_attention_autocast<at::kCPU>);
}

TORCH_LIBRARY_IMPL(bov, AutocastCUDA, m) {
  m.impl("bank_attention", bank_attention_autocast<at::kCUDA>);
}

}  // namespace bov::ops
