#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "csrc/windowed_attention_contract.h"

namespace bov::ops {
namespace {

/// Heads above 192 are left out: some GPUs cannot run their backward pass.
bool flash_attention_can(const at::Tensor& q) {
  return (q.scalar_type() == at::kBFloat16 || q.scalar_type() == at::kHalf) && q.size(3) % 8 == 0 &&
         q.size(3) <= 192 && at::cuda::getDeviceProperties(q.device().index())->major >= 8;
}

/// FlashAttention reads 16 bytes at a time from where each head's row begins.
bool reads_whole_packs(const at::Tensor& x) {
  constexpr int64_t kPack = 8;
  return x.stride(3) == 1 && x.stride(0) % kPack == 0 && x.stride(1) % kPack == 0 &&
         x.stride(2) % kPack == 0 && reinterpret_cast<uintptr_t>(x.const_data_ptr()) % 16 == 0;
}

at::Tensor flash_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, int64_t left) {
  // A view may be contiguous and yet begin between packs, hence clone.
  const auto packed = [](const at::Tensor& x) {
    return reads_whole_packs(x) ? x : x.clone(at::MemoryFormat::Contiguous);
  };
  return std::get<0>(at::_flash_attention_forward(packed(q), packed(k), packed(v), {}, {}, q.size(1),
                                                  k.size(1), /*dropout_p=*/0.0, /*is_causal=*/true,
                                                  /*return_debug_mask=*/false, /*scale=*/std::nullopt,
                                                  std::min(left, q.size(1)), /*window_size_right=*/0));
}

/// 0 where query `first_query + i` sees key `first_key + j`, -inf elsewhere: [queries, keys].
at::Tensor window_mask(int64_t first_query,
                       int64_t queries,
                       int64_t first_key,
                       int64_t keys,
                       int64_t left,
                       const at::TensorOptions& options) {
  const int64_t diagonal = first_query - first_key;
  const at::Tensor hidden = at::full({queries, keys}, -std::numeric_limits<double>::infinity(), options);
  return hidden.triu(diagonal + 1) + hidden.tril(diagonal - left - 1);
}

/// LibTorch's attention, block by block: a block of queries meets only the slice of keys that it sees.
at::Tensor block_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, int64_t left) {
  const int64_t length = q.size(1);
  const bool grouped = q.size(2) != k.size(2);
  const at::Tensor queries = q.transpose(1, 2), keys = k.transpose(1, 2), values = v.transpose(1, 2);
  const auto attend = [&](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                          const std::optional<at::Tensor>& mask) {
    return at::scaled_dot_product_attention(q, k, v, mask, /*dropout_p=*/0.0, /*is_causal=*/!mask,
                                            std::nullopt, grouped);
  };
  if (left >= length - 1) {
    return attend(queries, keys, values, std::nullopt).transpose(1, 2);
  }
  // A block as long as the window wastes at most half of its scores; short blocks cost more launches.
  const int64_t block = std::max<int64_t>(left, 64);
  std::vector<at::Tensor> outputs;
  for (int64_t start = 0; start < length; start += block) {
    const int64_t end = std::min(start + block, length);
    const int64_t first_key = std::max<int64_t>(0, start - left);
    const at::Tensor mask =
        window_mask(start, end - start, first_key, end - first_key, left, q.options().requires_grad(false));
    outputs.push_back(attend(queries.slice(2, start, end), keys.slice(2, first_key, end),
                             values.slice(2, first_key, end), mask));
  }
  return at::cat(outputs, 2).transpose(1, 2);
}

at::Tensor windowed_attention_cuda(const at::Tensor& q,
                                   const at::Tensor& k,
                                   const at::Tensor& v,
                                   int64_t left) {
  check_windowed_attention(q, k, v, left);
  const c10::cuda::CUDAGuard guard(q.device());
  if (q.numel() == 0) {
    return q.clone(at::MemoryFormat::Contiguous);
  }
  return (flash_attention_can(q) ? flash_attention(q, k, v, left) : block_attention(q, k, v, left))
      .contiguous();
}

}  // namespace

// LibTorch's attention has gradients of its own, so one function serves with and without autograd.
TORCH_LIBRARY_IMPL(bov, CUDA, m) {
  m.impl("windowed_attention", windowed_attention_cuda);
}

TORCH_LIBRARY_IMPL(bov, AutogradCUDA, m) {
  m.impl("windowed_attention", windowed_attention_cuda);
}

}  // namespace bov::ops
