#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "csrc/kernels/id_report.h"

/// token_index on a CUDA device, as the other kernels: raw device pointers and a stream in, a status out.
namespace bov::kernels {

struct TokenIndexArguments {
  const int64_t* ids;       ///< [positions]
  int64_t positions, rows;  ///< both below 2^31 - 1, positions at least 1
  int32_t* order;           ///< [positions] out
  int32_t* offsets;         ///< [min(positions, rows) + 1] out
  int32_t* distinct;        ///< [min(positions, rows)] out
  int32_t* count;           ///< [1] out
  IdReport* report;         ///< pinned host memory; receives an id outside the table, which is left out
};

/// With a null `workspace` sets `workspace_bytes` to what is needed and does nothing else.
cudaError_t token_index(const TokenIndexArguments& arguments,
                        void* workspace,
                        size_t& workspace_bytes,
                        cudaStream_t stream);

}  // namespace bov::kernels
