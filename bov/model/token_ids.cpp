#include "bov/model/token_ids.h"

namespace bov {

void check_token_ids(const char* what, const torch::Tensor& token_ids, int64_t vocab_size) {
  TORCH_CHECK(token_ids.dim() == 2 && token_ids.scalar_type() == torch::kInt64, what,
              ": token_ids must be int64 [B, T], got ", token_ids.scalar_type(), " ", token_ids.sizes());
  if (!token_ids.is_cpu() || token_ids.numel() == 0) return;
  const auto [lowest, highest] = token_ids.aminmax();
  const int64_t low = lowest.item<int64_t>(), high = highest.item<int64_t>();
  TORCH_CHECK(low >= 0 && high < vocab_size, what, ": token id ", low < 0 ? low : high,
              " is outside the vocabulary of ", vocab_size);
}

}  // namespace bov
