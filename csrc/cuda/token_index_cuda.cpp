#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include "csrc/cuda/id_report.h"
#include "csrc/kernels/token_index.cuh"
#include "csrc/token_index_contract.h"

namespace bov::ops {
namespace {

TokenIndexTensors token_index_cuda(const at::Tensor& ids, int64_t rows) {
  check_token_index(ids, rows);
  const c10::cuda::CUDAGuard guard(ids.device());
  TokenIndexTensors index = empty_token_index(ids, rows);
  auto& [positions, offsets, distinct, count] = index;
  if (ids.numel() == 0) {
    offsets.zero_();
    count.zero_();
    return index;
  }
  const at::Tensor list = ids.to(at::kLong).contiguous();
  const kernels::TokenIndexArguments arguments{list.const_data_ptr<int64_t>(),
                                               list.numel(),
                                               rows,
                                               positions.mutable_data_ptr<int32_t>(),
                                               offsets.mutable_data_ptr<int32_t>(),
                                               distinct.mutable_data_ptr<int32_t>(),
                                               count.mutable_data_ptr<int32_t>(),
                                               id_report(ids.device())};
  const auto stream = at::cuda::getCurrentCUDAStream();
  size_t bytes = 0;
  C10_CUDA_CHECK(kernels::token_index(arguments, nullptr, bytes, stream));
  at::Tensor workspace = at::empty({static_cast<int64_t>(bytes)}, list.options().dtype(at::kByte));
  C10_CUDA_CHECK(kernels::token_index(arguments, workspace.mutable_data_ptr(), bytes, stream));
  return index;
}

}  // namespace

TORCH_LIBRARY_IMPL(bov, CUDA, m) {
  m.impl("token_index", token_index_cuda);
}

}  // namespace bov::ops
