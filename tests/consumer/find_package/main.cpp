// The values of an attention layer are rows of a table, by token id: v = γ·E_V[id].
#include <bov/value/bank_of_values.h>
#include <csrc/version.h>

#include <cstdio>

int main() {
  bov::BankOfValues bank(/*vocab_size=*/1000, /*n_kv_head=*/2, /*head_dim=*/16);
  const torch::Tensor gamma = torch::ones({1}).set_requires_grad(true);
  const torch::Tensor token_ids = torch::tensor({{7, 42, 7}});            // [B, T]
  const torch::Tensor v = bank->forward(token_ids, std::nullopt, gamma);  // [B, T, Hkv, D]
  v.sum().backward();
  std::printf("bov %s: values [%d, %d, %d, %d]\n", bov::ops::version(), int(v.size(0)), int(v.size(1)),
              int(v.size(2)), int(v.size(3)));
  const torch::Tensor gradient = bank->table.grad();
  std::printf("gradient of row 7: %g, of row 42: %g, of row 8: %g\n", gradient[7][0].item<double>(),
              gradient[42][0].item<double>(), gradient[8][0].item<double>());
}
