#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include <limits>
#include <optional>

#include "csrc/bank_attention_contract.h"
#include "csrc/cuda/element_of.h"
#include "csrc/cuda/id_report.h"
#include "csrc/kernels/bank_attention.cuh"
#include "csrc/token_index.h"

namespace bov::ops {
namespace {

constexpr int64_t kMaxBatch = 65535;  // the last dimension of a grid of blocks

kernels::BankIds bank_ids(const at::Tensor& ids) {
  return {ids.const_data_ptr(), static_cast<int>(ids.element_size()), ids.scalar_type() == at::kShort,
          ids.stride(0), ids.stride(1)};
}

/// The sorted slots of the aggregated algorithm, and the tensors that hold them.
struct Pieces {
  TokenIndex index;
  at::Tensor segment_of_sequence, largest, weights;

  kernels::BankPieces pointers() {
    return {index.positions.const_data_ptr<int32_t>(),
            index.offsets.const_data_ptr<int32_t>(),
            index.distinct.const_data_ptr<int32_t>(),
            index.count.const_data_ptr<int32_t>(),
            segment_of_sequence.mutable_data_ptr<int32_t>(),
            largest.mutable_data_ptr(),
            weights[0].mutable_data_ptr(),
            weights[1].mutable_data_ptr()};
  }
};

Pieces sort_slots(const kernels::BankArguments& arguments, at::TensorOptions options) {
  const kernels::BankShape& shape = arguments.shape;
  const int64_t positions = shape.batch * shape.capacity();
  const int64_t key_count = shape.batch * (shape.table_rows + 1) + 1;
  TORCH_CHECK(
      std::max(positions, key_count) < std::numeric_limits<int32_t>::max(),
      "bank_attention: the aggregated algorithm takes fewer than 2^31 - 1 slots and batch * (rows + 1), got ",
      positions, " and ", key_count - 1);
  at::Tensor keys = at::empty({positions}, options.dtype(at::kLong));
  C10_CUDA_CHECK(kernels::bank_piece_keys(arguments, keys.mutable_data_ptr<int64_t>(),
                                          at::cuda::getCurrentCUDAStream()));
  return {token_index(keys, key_count), at::empty({shape.batch + 1}, options.dtype(at::kInt)),
          at::empty({shape.batch, shape.rows()}, options), at::empty({2, positions, shape.rows()}, options)};
}

at::Tensor bank_attention_cuda(const at::Tensor& q,
                               const at::Tensor& keys,
                               const at::Tensor& table,
                               const at::Tensor& ids,
                               const at::Tensor& lengths,
                               int64_t left,
                               const std::optional<at::Tensor>& scale,
                               const std::optional<at::Tensor>& row_scale,
                               c10::string_view algorithm) {
  check_bank_attention(q, keys, table, ids, lengths, left, scale, row_scale);
  const BankAlgorithm chosen = algorithm_named(algorithm);
  TORCH_CHECK(q.size(0) <= kMaxBatch, "bank_attention: on CUDA a batch may have ", kMaxBatch,
              " sequences, got ", q.size(0));
  const c10::cuda::CUDAGuard guard(q.device());
  kernels::IdReport* report = id_report(q.device());
  at::Tensor out = at::empty(q.sizes(), q.options());
  if (q.numel() == 0 || keys.size(1) == 0) {
    return out.zero_();
  }
  const at::ScalarType compute = compute_type(q.scalar_type());
  const at::TensorOptions options = q.options().dtype(compute);
  const kernels::BankShape shape{q.size(0), q.size(1),    q.size(2), keys.size(2),
                                 q.size(3), keys.size(1), left,      table.size(0)};
  const at::Tensor queries = q.to(compute).contiguous();
  const at::Tensor batch_lengths = lengths.contiguous();
  const at::Tensor factor = scale.has_value() ? scale->to(compute) : at::Tensor();
  at::Tensor scores = at::empty({shape.batch, shape.capacity(), shape.rows()}, options);
  at::Tensor largest = at::empty({2, shape.batch, shape.splits(), shape.rows()}, options);
  at::Tensor partials = at::empty({shape.batch, shape.splits(), shape.rows(), shape.width}, options);
  const kernels::BankArguments arguments{
      shape,
      compute == at::kDouble,
      element_of(keys.scalar_type()),
      row_scale.has_value() ? kernels::Element::float32 : element_of(table.scalar_type()),
      element_of(q.scalar_type()),
      batch_lengths.const_data_ptr<int64_t>(),
      bank_ids(ids),
      keys.const_data_ptr(),
      keys.stride(0),
      keys.stride(1),
      keys.stride(2),
      queries.const_data_ptr(),
      table.const_data_ptr(),
      table.stride(0),
      row_scale.has_value() ? row_scale->const_data_ptr<float>() : nullptr,
      factor.defined() ? factor.const_data_ptr() : nullptr,
      scores.mutable_data_ptr(),
      largest[0].mutable_data_ptr(),
      largest[1].mutable_data_ptr(),
      partials.mutable_data_ptr(),
      out.mutable_data_ptr(),
      report};
  const auto stream = at::cuda::getCurrentCUDAStream();
  // No threshold has been measured on a GPU, and in a fast cache the rows of equal ids cost little twice.
  if (chosen != BankAlgorithm::aggregated) {
    C10_CUDA_CHECK(kernels::bank_attention(arguments, nullptr, stream));
    return out;
  }
  Pieces pieces = sort_slots(arguments, options);
  const kernels::BankPieces pointers = pieces.pointers();
  C10_CUDA_CHECK(kernels::bank_attention(arguments, &pointers, stream));
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(bov, CUDA, m) {
  m.impl("bank_attention", bank_attention_cuda);
}

}  // namespace bov::ops
