#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "csrc/kernels/bank_attention_entries.h"
#include "csrc/kernels/element.h"

/// bank_attention on a CUDA device, as the other kernels: raw device pointers and a stream in, a status out.
namespace bov::kernels {

/// Ids of the slots in view, sorted (see PieceEntries), and the aggregated algorithm's workspaces of compute type.
struct BankPieces {
  const int32_t *order, *offsets, *distinct;
  const int32_t* count;          ///< [1] segments
  int32_t* segment_of_sequence;  ///< [batch + 1]
  void* largest;                 ///< [batch, rows]
  void* slot_weights;            ///< [batch * capacity, rows]
  void* piece_weights;           ///< [batch * capacity, rows]
};

struct BankArguments {
  BankShape shape;
  bool in_float64;  ///< the compute type; else float32
  Element key_type, table_type, out_type;
  const int64_t* lengths;  ///< [batch]
  BankIds ids;
  const void* keys;
  int64_t key_batch_stride, key_slot_stride, key_head_stride;
  const void* queries;  ///< [batch, queries, heads, width] of the compute type
  const void* table;    ///< [table_rows, key_heads * width]; int8 if there is a row_scale
  int64_t row_stride;
  const float* row_scale;  ///< [table_rows] or null
  const void* scale;       ///< one number of the compute type, or null for 1
  void* scores;            ///< workspaces of the compute type: [batch, capacity, rows],
  void* largest;           ///< [batch, splits, rows],
  void* sums;              ///< [batch, splits, rows] and
  void* partials;          ///< [batch, splits, rows, width]
  void* out;               ///< [batch, queries, heads, width]
  IdReport* report;        ///< pinned host memory; receives an id outside the table
};

/// The result by the indirect algorithm, or by the aggregated one if there are `pieces`. Out: NaN for
/// a sequence with an id outside the table in view, or with a length out of range.
cudaError_t bank_attention(const BankArguments& arguments, const BankPieces* pieces, cudaStream_t stream);

/// The sort keys of all positions: [batch * capacity], in [0, batch * (table_rows + 1)].
cudaError_t bank_piece_keys(const BankArguments& arguments, int64_t* keys, cudaStream_t stream);

}  // namespace bov::kernels
