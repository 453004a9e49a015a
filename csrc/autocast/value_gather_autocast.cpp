#include <ATen/autocast_mode.h>
#include <torch/library.h>

#include "csrc/value_gather_call.h"

namespace bov::ops {
namespace {

/// Autocast chooses the dtype of results that name none. Tables stay as they are: casting one would copy all of it for
/// the few rows that are read. Like other operators, this one leaves float64 alone.
template <at::DeviceType device>
std::vector<at::Tensor> value_gather_layers_autocast(at::TensorList tables,
                                                     const at::Tensor& ids,
                                                     at::TensorList scales,
                                                     at::TensorList index,
                                                     std::optional<at::ScalarType> dtype) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(
      at::autocast::get_autocast_dispatch_key_from_device_type(device));
  if (!dtype.has_value() && !tables.empty() && tables[0].scalar_type() != at::kDouble) {
    dtype = at::autocast::get_autocast_dtype(device);
  }
  return call_value_gather_layers(tables, ids, scales, index, dtype);
}

}  // namespace

TORCH_LIBRARY_IMPL(bov, AutocastCPU, m) {
  m.impl("value_gather_layers", value_gather_layers_autocast<at::kCPU>);
}

TORCH_LIBRARY_IMPL(bov, AutocastCUDA, m) {
  m.impl("value_gather_layers", value_gather_layers_autocast<at::kCUDA>);
}

}  // namespace bov::ops
