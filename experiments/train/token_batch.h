#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <vector>

#include "experiments/config/run_config.h"
#include "experiments/data/packing_loader.h"

namespace bov::experiments {

/// How the batches of a run are packed.
PackingOptions packing_options(const RunConfig& config);

/// What a language model is trained or judged on: for each id, the one that follows it.
struct TokenBatch {
  at::Tensor ids;      ///< [rows, T] int64
  at::Tensor targets;  ///< [rows, T] int64; -1 is ignored
};

/// rows x (T + 1) ids -> ids are columns [0, T), targets columns [1, T + 1). To a GPU the copy is from pinned memory
/// and does not wait.
TokenBatch shifted_batch(const std::vector<int32_t>& tokens, int64_t rows, c10::Device device);

/// rows x T ids -> int64 tensor on `device`, copied likewise.
at::Tensor token_tensor(const std::vector<int32_t>& tokens, int64_t rows, c10::Device device);

}  // namespace bov::experiments
