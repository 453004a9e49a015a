#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "csrc/kernels/element.h"
#include "csrc/kernels/value_gather_threads.h"

/// value_gather on a CUDA device: raw device pointers and a stream in, a status out. The caller owns every
/// buffer, sets the device and has checked shapes and dtypes. Offsets into tables and results are 64-bit. The arithmetic is done in ComputeType of the two
/// element types.
namespace bov::kernels {

struct GatherLayer {
  const void* table;   ///< [rows, width]
  int64_t row_stride;  ///< elements from one table row to the next
  const void* scale;   ///< one number of the compute type, or null for 1
  void* out;           ///< [positions, width]
};

struct GatherArguments {
  Element table_type, out_type;
  const GatherLayer* layers;  ///< on the host
  int layer_count;
  int64_t rows, width;
  const int64_t* ids;  ///< [positions]
  int64_t positions;
  IdReport* report;  ///< pinned host memory; receives an id outside the table, whose rows become NaN
};

/// out[i] = scale * table[ids[i]] for each layer, in one launch for every kMaxLayers of them.
cudaError_t value_gather(const GatherArguments& arguments, cudaStream_t stream);

struct ScatterArguments {
  Element grad_type, table_type;
  const void* grad;     ///< [positions, width]
  int64_t grad_stride;  ///< elements from one row of grad to the next
  const void* table;    ///< [rows, width]
  int64_t row_stride;   ///< elements from one table row to the next
  int64_t rows, width, positions;
  Segments segments;     ///< of the ids that grad's rows belong to
  const void* scale;     ///< one number of the compute type, or null for 1
  void *heads, *tails;   ///< [chunks, width] workspaces of the compute type
  void* table_grad;      ///< [rows, width] of the table's type, filled with zeros; or null
  void* scale_partials;  ///< scale_partial_count() numbers of the compute type, out; or null
};

/// How many numbers of scale_partials are to be added up for the gradient of scale.
int64_t scale_partial_count(const ScatterArguments& arguments);

/// table_grad[r] = scale * (sum of grad's rows whose id is r), and the partials of the gradient of scale.
cudaError_t value_gather_backward(const ScatterArguments& arguments, cudaStream_t stream);

}  // namespace bov::kernels
