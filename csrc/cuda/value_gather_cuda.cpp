#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include <vector>

#include "csrc/cuda/element_of.h"
#include "csrc/cuda/id_report.h"
#include "csrc/kernels/value_gather.cuh"
#include "csrc/value_gather_contract.h"

namespace bov::ops {
namespace {

/// The kernels read the scale where it is, so that nothing waits for the device.
at::Tensor scale_in(const std::optional<at::Tensor>& scale, at::ScalarType compute) {
  return scale.has_value() ? scale->to(compute) : at::Tensor();
}

const void* data_or_null(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.const_data_ptr() : nullptr;
}

std::vector<at::Tensor> value_gather_layers_cuda(at::TensorList tables,
                                                 const at::Tensor& ids,
                                                 at::TensorList scales,
                                                 at::TensorList index,
                                                 std::optional<at::ScalarType> dtype) {
  std::vector<at::Tensor> results = empty_value_gather(tables, ids, scales, index, dtype);
  const c10::cuda::CUDAGuard guard(ids.device());
  const at::Tensor list = ids.to(at::kLong).contiguous();
  const at::ScalarType table_type = tables[0].scalar_type();
  const at::ScalarType out_type = results[0].scalar_type();
  std::vector<at::Tensor> alive;  // until the launch
  std::vector<kernels::GatherLayer> layers;
  for (size_t i = 0; i < tables.size(); ++i) {
    const at::Tensor rows = alive.emplace_back(with_adjacent_columns(tables[i]));
    at::Tensor factor;
    if (!scales.empty()) {
      factor = alive.emplace_back(scales[i].to(compute_type(table_type, out_type)));
    }
    layers.push_back(
        {rows.const_data_ptr(), rows.stride(0), data_or_null(factor), results[i].mutable_data_ptr()});
  }
  C10_CUDA_CHECK(
      kernels::value_gather({element_of(table_type), element_of(out_type), layers.data(),
                             static_cast<int>(layers.size()), tables[0].size(0), tables[0].size(1),
                             list.const_data_ptr<int64_t>(), list.numel(), id_report(ids.device())},
                            at::cuda::getCurrentCUDAStream()));
  return results;
}

/// The gradients of one table and its scale.
void sum_layer(const ValueGatherLayer& layer, const TokenIndex& index, int64_t positions) {
  const int64_t rows = layer.table.size(0);
  const int64_t width = layer.table.size(1);
  const at::ScalarType compute = compute_type(layer.table.scalar_type(), layer.grad.scalar_type());
  const at::Tensor grad = with_adjacent_columns(layer.grad.reshape({positions, width}));
  const at::Tensor table = with_adjacent_columns(layer.table);
  const at::Tensor factor = scale_in(layer.scale, compute);
  at::Tensor table_grad = layer.table_grad;
  if (table_grad.defined()) {
    table_grad.zero_();
  }
  const int64_t chunks = kernels::ceil_div(positions, kernels::chunk_length(positions));
  at::Tensor borders = at::empty({2, chunks, width}, table.options().dtype(compute));
  at::Tensor heads = borders[0];
  at::Tensor tails = borders[1];
  kernels::ScatterArguments arguments{
      element_of(grad.scalar_type()),
      element_of(table.scalar_type()),
      grad.const_data_ptr(),
      grad.stride(0),
      table.const_data_ptr(),
      table.stride(0),
      rows,
      width,
      positions,
      {index.positions.const_data_ptr<int32_t>(), index.offsets.const_data_ptr<int32_t>(),
       index.distinct.const_data_ptr<int32_t>(), index.count.const_data_ptr<int32_t>(),
       index.positions.numel(), index.distinct.numel()},
      data_or_null(factor),
      heads.mutable_data_ptr(),
      tails.mutable_data_ptr(),
      table_grad.defined() ? table_grad.mutable_data_ptr() : nullptr,
      nullptr};
  at::Tensor partials;
  if (layer.scale_grad.defined()) {
    partials = at::empty({kernels::scale_partial_count(arguments)}, borders.options());
    arguments.scale_partials = partials.mutable_data_ptr();
  }
  C10_CUDA_CHECK(kernels::value_gather_backward(arguments, at::cuda::getCurrentCUDAStream()));
  if (layer.scale_grad.defined()) {
    layer.scale_grad.copy_(partials.sum(at::kDouble).reshape(layer.scale_grad.sizes()));
  }
}

ValueGatherGradients value_gather_layers_backward_cuda(at::TensorList grads,
                                                       at::TensorList tables,
                                                       const at::Tensor& ids,
                                                       at::TensorList scales,
                                                       at::TensorList index,
                                                       bool table_gradients,
                                                       bool scale_gradients) {
  const ValueGatherBackward arguments{grads, tables, ids, scales, index, table_gradients, scale_gradients};
  arguments.check();
  const c10::cuda::CUDAGuard guard(ids.device());
  const TokenIndex sorted = arguments.token_index();
  return value_gather_gradients(
      arguments, [&](const ValueGatherLayer& layer) { sum_layer(layer, sorted, ids.numel()); });
}

}  // namespace

TORCH_LIBRARY_IMPL(bov, CUDA, m) {
  m.impl("value_gather_layers", value_gather_layers_cuda);
  m.impl("_value_gather_layers_backward", value_gather_layers_backward_cuda);
}

}  // namespace bov::ops
