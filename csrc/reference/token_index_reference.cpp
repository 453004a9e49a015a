#include "csrc/reference/token_index_reference.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace bov::ops::reference {

TokenIndex token_index(const at::Tensor& ids, int64_t rows) {
  const auto [sorted, order] = at::sort(ids.flatten(), /*stable=*/true, /*dim=*/0, /*descending=*/false);
  const auto [distinct, inverse, lengths] =
      at::unique_consecutive(sorted, /*return_inverse=*/false, /*return_counts=*/true);
  const int64_t unused = std::min(ids.numel(), rows) - distinct.numel();
  const at::Tensor ends = at::constant_pad_nd(lengths.cumsum(0), {1, unused}, ids.numel());
  return {order.to(at::kInt), ends.index_fill(0, at::zeros({1}, order.options()), 0).to(at::kInt),
          at::constant_pad_nd(distinct, {0, unused}, rows).to(at::kInt),
          at::full({1}, distinct.numel(), order.options().dtype(at::kInt))};
}

}  // namespace bov::ops::reference
