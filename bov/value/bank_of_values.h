#pragma once

#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include "bov/export.h"
#include "csrc/token_index.h"

namespace bov {

/// Sizes and dtypes of a BankOfValues.
struct BOV_API BankOfValuesOptions {
  /// Sizes, each at least 1; the rest by setters.
  BankOfValuesOptions(int64_t vocab_size, int64_t n_kv_head, int64_t head_dim)
      : vocab_size_(vocab_size), n_kv_head_(n_kv_head), head_dim_(head_dim) {}
  TORCH_ARG(int64_t, vocab_size);                    ///< rows, |V|
  TORCH_ARG(int64_t, n_kv_head);                     ///< Hkv
  TORCH_ARG(int64_t, head_dim);                      ///< D
  TORCH_ARG(torch::Dtype, dtype) = torch::kFloat32;  ///< of the stored table
  /// Where the table is made. On `meta` it has a shape and no memory: a decoder's BankStore brings the rows.
  TORCH_ARG(torch::Device, device) = torch::kCPU;
};

/// E_V: one learned value vector a token id (arXiv 2606.02780, Eq. 4-5). Usable alone in any LibTorch model:
///
///     bov::BankOfValues bank(bov::BankOfValuesOptions(32768, 6, 128).dtype(torch::kBFloat16));
///     torch::Tensor v = bank->forward(token_ids);  // [B, T, 6, 128]
class BOV_API BankOfValuesImpl : public torch::nn::Cloneable<BankOfValuesImpl> {
 public:
  /// A float32 table on the CPU. Throws as the other constructor.
  BankOfValuesImpl(int64_t vocab_size, int64_t n_kv_head, int64_t head_dim)
      : BankOfValuesImpl(BankOfValuesOptions(vocab_size, n_kv_head, head_dim)) {}
  /// Throws c10::Error for a size below 1.
  explicit BankOfValuesImpl(BankOfValuesOptions options);

  /// Makes the table and draws it.
  void reset() override;
  /// Rows from U(-s, s), s = sqrt(3/width): variance 1/width, as a fresh W_V applied to a normalised input gives.
  void reset_parameters();

  /// token_ids [..] integral, each in [0, vocab_size) -> [.., Hkv, D] in `dtype` (default: the table's). With `scale`
  /// (one element) the rows are multiplied by it in the same pass. With `index`, of token_ids and vocab_size, the backward
  /// pass sorts nothing. Throws c10::Error naming the first id out of range.
  torch::Tensor forward(const torch::Tensor& token_ids,
                        std::optional<torch::Dtype> dtype = std::nullopt,
                        const torch::Tensor& scale = {},
                        const std::optional<ops::TokenIndex>& index = std::nullopt);

  /// Sets row t to RMSNorm(embedding[t])·projectionᵀ in float32 or better: embedding [|V|, C], projection
  /// [Hkv·D, C], any floating dtypes, on the table's device. The layer then starts as the x0·W_V variant (without smear). A
  /// table on `meta` stays as it is. Throws c10::Error for other shapes.
  void align(const torch::Tensor& embedding, const torch::Tensor& projection);

  /// As given.
  const BankOfValuesOptions& options() const { return options_; }

  torch::Tensor table;  ///< [|V|, Hkv·D]

 private:
  BankOfValuesOptions options_;
};
TORCH_MODULE(BankOfValues);

}  // namespace bov
