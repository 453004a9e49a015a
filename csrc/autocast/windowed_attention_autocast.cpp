#include <ATen/autocast_mode.h>
#include <torch/library.h>

#include "csrc/windowed_attention.h"

namespace bov::ops {
namespace {

template <at::DeviceType device>
at::Tensor windowed_attention_autocast(const at::Tensor& q,
                                       const at::Tensor& k,
                                       const at::Tensor& v,
                                       int64_t left) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(
      at::autocast::get_autocast_dispatch_key_from_device_type(device));
  const auto cast = [](const at::Tensor& x) {
    return at::autocast::cached_cast(at::autocast::get_autocast_dtype(device), x, device);
  };
  return windowed_attention(cast(q), cast(k), cast(v), left);
}

}  // namespace

TORCH_LIBRARY_IMPL(bov, AutocastCPU, m) {
  m.impl("windowed_attention", windowed_attention_autocast<at::kCPU>);
}

TORCH_LIBRARY_IMPL(bov, AutocastCUDA, m) {
  m.impl("windowed_attention", windowed_attention_autocast<at::kCUDA>);
}

}  // namespace bov::ops
