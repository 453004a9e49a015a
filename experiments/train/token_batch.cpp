#include "experiments/train/token_batch.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

namespace bov::experiments {

PackingOptions packing_options(const RunConfig& config) {
  const bool as_published = config.data.packing == "as_published";
  return {.rows = config.train.micro_batch,
          .sequence_length = config.model.sequence_length,
          .buffer_documents = config.data.buffer_documents,
          .seed = static_cast<uint64_t>(config.train.seed),
          .shuffle = !as_published,
          .as_published = as_published};
}

at::Tensor token_tensor(const std::vector<int32_t>& tokens, int64_t rows, c10::Device device) {
  const auto count = static_cast<int64_t>(tokens.size());
  TORCH_CHECK(rows > 0 && count % rows == 0, "token_tensor: ", count, " tokens cannot be cut into ", rows,
              " rows");
  // from_blob reads the vector without changing it; the conversion copies.
  auto view = at::from_blob(const_cast<int32_t*>(tokens.data()), {rows, count / rows}, at::kInt);
  auto host = at::empty(view.sizes(), at::TensorOptions(at::kLong).pinned_memory(device.is_cuda()));
  host.copy_(view);
  return host.to(device, /*non_blocking=*/true);
}

TokenBatch shifted_batch(const std::vector<int32_t>& tokens, int64_t rows, c10::Device device) {
  const auto both = token_tensor(tokens, rows, device);
  const int64_t length = both.size(1) - 1;
  return {both.narrow(1, 0, length).contiguous(), both.narrow(1, 1, length).contiguous()};
}

}  // namespace bov::experiments
