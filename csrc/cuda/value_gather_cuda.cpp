#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include <limits>

#include "csrc/cuda/id_report.h"
#include "csrc/kernels/value_gather.cuh"
#include "csrc/value_gather_contract.h"

namespace bov::ops {
namespace {

kernels::Element element_of(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
      return kernels::Element::float64;
    case at::kFloat:
      return kernels::Element::float32;
    case at::kBFloat16:
      return kernels::Element::bfloat16;
    case at::kHalf:
      return kernels::Element::float16;
    default:
      TORCH_CHECK(false, "value_gather: no CUDA kernel for ", type);
  }
}

/// The same values with adjacent columns; rows may be strided.
at::Tensor with_adjacent_columns(const at::Tensor& matrix) {
  return matrix.stride(1) == 1 ? matrix : matrix.contiguous();
}

/// The kernels read the scale where it is, so that nothing waits for the device.
at::Tensor scale_in(const std::optional<at::Tensor>& scale, at::ScalarType compute) {
  return scale.has_value() ? scale->to(compute) : at::Tensor();
}

const void* data_or_null(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.const_data_ptr() : nullptr;
}

at::Tensor value_gather_cuda(const at::Tensor& table,
                             const at::Tensor& ids,
                             const std::optional<at::Tensor>& scale,
                             std::optional<at::ScalarType> dtype) {
  const at::ScalarType out_type = check_value_gather(table, ids, scale, dtype);
  const c10::cuda::CUDAGuard guard(table.device());
  kernels::IdReport* report = id_report(table.device());
  const at::Tensor rows = with_adjacent_columns(table);
  const at::Tensor list = ids.to(at::kLong).contiguous();
  const at::Tensor factor = scale_in(scale, value_gather_compute_type(table.scalar_type(), out_type));
  at::Tensor out = at::empty_symint(value_gather_shape(table, ids), table.options().dtype(out_type));
  C10_CUDA_CHECK(
      kernels::value_gather({element_of(table.scalar_type()), element_of(out_type), rows.const_data_ptr(),
                             rows.size(0), rows.size(1), rows.stride(0), list.const_data_ptr<int64_t>(),
                             list.numel(), data_or_null(factor), out.mutable_data_ptr(), report},
                            at::cuda::getCurrentCUDAStream()));
  return out;
}

/// Sorted ids and where each row's segment begins: [n], [n] and [rows + 1] int32.
struct SortedIds {
  at::Tensor ids, order, row_begin;
};

SortedIds sort_on_device(const at::Tensor& ids, int64_t rows) {
  const at::Tensor list = ids.to(at::kLong).contiguous();
  const auto int32 = list.options().dtype(at::kInt);
  SortedIds sorted{at::empty({list.numel()}, int32), at::empty({list.numel()}, int32),
                   at::empty({rows + 1}, int32)};
  const kernels::SortArguments arguments{list.const_data_ptr<int64_t>(),
                                         list.numel(),
                                         rows,
                                         sorted.ids.mutable_data_ptr<int32_t>(),
                                         sorted.order.mutable_data_ptr<int32_t>(),
                                         sorted.row_begin.mutable_data_ptr<int32_t>()};
  const auto stream = at::cuda::getCurrentCUDAStream();
  size_t bytes = 0;
  C10_CUDA_CHECK(kernels::sort_ids(arguments, nullptr, bytes, stream));
  at::Tensor workspace = at::empty({static_cast<int64_t>(bytes)}, list.options().dtype(at::kByte));
  C10_CUDA_CHECK(kernels::sort_ids(arguments, workspace.mutable_data_ptr(), bytes, stream));
  return sorted;
}

std::tuple<at::Tensor, at::Tensor> value_gather_backward_cuda(const at::Tensor& grad,
                                                              const at::Tensor& table,
                                                              const at::Tensor& ids,
                                                              const std::optional<at::Tensor>& scale,
                                                              bool table_gradient,
                                                              bool scale_gradient) {
  check_value_gather_backward(grad, table, ids, scale, scale_gradient);
  const c10::cuda::CUDAGuard guard(table.device());
  at::Tensor table_grad =
      table_gradient ? at::zeros(table.sizes(), table.options()) : at::empty({0}, table.options());
  at::Tensor scale_grad =
      scale_gradient ? at::zeros(scale->sizes(), scale->options()) : at::empty({0}, table.options());
  if (grad.numel() == 0) {
    return {table_grad, scale_grad};
  }
  constexpr int64_t kLimit = std::numeric_limits<int32_t>::max();
  TORCH_CHECK(ids.numel() < kLimit && table.size(0) < kLimit,
              "_value_gather_backward: at most 2^31 - 2 ids and rows, got ", ids.numel(), " and ",
              table.size(0));

  const at::ScalarType compute = value_gather_compute_type(table.scalar_type(), grad.scalar_type());
  const at::Tensor grad_rows = with_adjacent_columns(grad.reshape({ids.numel(), table.size(1)}));
  const at::Tensor table_rows = with_adjacent_columns(table);
  const at::Tensor factor = scale_in(scale, compute);
  const SortedIds sorted = sort_on_device(ids, table.size(0));
  const int64_t chunks = kernels::ceil_div(ids.numel(), kernels::chunk_length(ids.numel()));
  at::Tensor borders = at::empty({2, chunks, table.size(1)}, table.options().dtype(compute));
  at::Tensor heads = borders[0];
  at::Tensor tails = borders[1];
  kernels::ScatterArguments arguments{element_of(grad.scalar_type()),
                                      element_of(table.scalar_type()),
                                      grad_rows.const_data_ptr(),
                                      grad_rows.stride(0),
                                      table_rows.const_data_ptr(),
                                      table_rows.stride(0),
                                      table.size(0),
                                      table.size(1),
                                      ids.numel(),
                                      sorted.ids.const_data_ptr<int32_t>(),
                                      sorted.order.const_data_ptr<int32_t>(),
                                      sorted.row_begin.const_data_ptr<int32_t>(),
                                      data_or_null(factor),
                                      heads.mutable_data_ptr(),
                                      tails.mutable_data_ptr(),
                                      table_gradient ? table_grad.mutable_data_ptr() : nullptr,
                                      nullptr};
  at::Tensor partials;
  if (scale_gradient) {
    partials = at::empty({kernels::scale_partial_count(arguments)}, borders.options());
    arguments.scale_partials = partials.mutable_data_ptr();
  }
  C10_CUDA_CHECK(kernels::value_gather_backward(arguments, at::cuda::getCurrentCUDAStream()));
  if (scale_gradient) {
    scale_grad.copy_(partials.sum(at::kDouble).reshape(scale->sizes()));
  }
  return {table_grad, scale_grad};
}

}  // namespace

TORCH_LIBRARY_IMPL(bov, CUDA, m) {
  m.impl("value_gather", value_gather_cuda);
  m.impl("_value_gather_backward", value_gather_backward_cuda);
}

}  // namespace bov::ops
