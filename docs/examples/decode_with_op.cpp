// A decode loop of somebody else's that keeps keys and token ids but no values: bov::ops::bank_attention reads the rows
// of the value table as it goes. Checked at each step against LibTorch's attention over values that were gathered.
#include <ATen/ATen.h>

#include <algorithm>
#include <cstdio>

#include "csrc/bank_attention.h"

int main() {
  constexpr int64_t kBatch = 2, kHeads = 4, kKvHeads = 2, kWidth = 16, kVocabulary = 500;
  constexpr int64_t kSteps = 48, kWindow = 32;  // a query sees kWindow earlier tokens and its own
  at::manual_seed(0);
  const at::Tensor table = at::randn({kVocabulary, kKvHeads * kWidth});  // E_V of one layer
  const at::Tensor gamma = at::full({1}, 0.7);

  // What is kept of the past, with room for kSteps tokens.
  at::Tensor keys = at::zeros({kBatch, kSteps, kKvHeads, kWidth});
  at::Tensor ids = at::zeros({kBatch, kSteps}, at::kShort);

  double largest_difference = 0;
  for (int64_t step = 0; step < kSteps; ++step) {
    const at::Tensor token = at::randint(kVocabulary, {kBatch}, at::kShort);
    const at::Tensor q = at::randn({kBatch, 1, kHeads, kWidth});  // the model's projections go here
    keys.select(1, step).copy_(at::randn({kBatch, kKvHeads, kWidth}));
    ids.select(1, step).copy_(token);
    const at::Tensor lengths = at::full({kBatch}, step + 1, at::kLong);
    const at::Tensor out = bov::ops::bank_attention(q, keys, table, ids, lengths, kWindow, gamma);

    // The same with the values of the window gathered, as [B, heads, S, D].
    const int64_t first = std::max<int64_t>(0, step - kWindow), seen = step + 1 - first;
    const auto per_head = [](const at::Tensor& x) {
      return x.repeat_interleave(kHeads / kKvHeads, 2).transpose(1, 2);
    };
    const at::Tensor rows = table.index_select(0, ids.slice(1, first, step + 1).flatten().to(at::kLong));
    const at::Tensor values = per_head(gamma * rows.view({kBatch, seen, kKvHeads, kWidth}));
    const at::Tensor expected =
        at::scaled_dot_product_attention(q.transpose(1, 2), per_head(keys.slice(1, first, step + 1)), values);
    largest_difference =
        std::max(largest_difference, (out.transpose(1, 2) - expected).abs().max().item<double>());
  }
  std::printf("%d steps, largest difference from attention over gathered values %.1e\n", int(kSteps),
              largest_difference);
  std::printf("kept: %d bytes of keys, %d of ids; a V cache would take %d\n", int(keys.nbytes()),
              int(ids.nbytes()), int(keys.nbytes()));
}
