#include "bov/value/bank_of_values.h"

#include <cmath>

#include "bov/model/rms_norm.h"
#include "csrc/value_gather.h"

namespace bov {

BankOfValuesImpl::BankOfValuesImpl(BankOfValuesOptions options) : options_(std::move(options)) {
  reset();
}

void BankOfValuesImpl::reset() {
  TORCH_CHECK(options_.vocab_size() > 0 && options_.n_kv_head() > 0 && options_.head_dim() > 0,
              "BankOfValues: vocab_size, n_kv_head and head_dim must be positive, got ",
              options_.vocab_size(), ", ", options_.n_kv_head(), " and ", options_.head_dim());
  const int64_t width = options_.n_kv_head() * options_.head_dim();
  table = register_parameter("table",
                             torch::empty({options_.vocab_size(), width},
                                          torch::TensorOptions(options_.dtype()).device(options_.device())));
  reset_parameters();
}

void BankOfValuesImpl::reset_parameters() {
  torch::NoGradGuard no_grad;
  const double s = std::sqrt(3.0 / static_cast<double>(table.size(1)));
  table.copy_(torch::empty(table.sizes(), table.options().dtype(torch::kFloat32)).uniform_(-s, s));
}

torch::Tensor BankOfValuesImpl::forward(const torch::Tensor& token_ids,
                                        std::optional<torch::Dtype> dtype,
                                        const torch::Tensor& scale,
                                        const std::optional<ops::TokenIndex>& index) {
  std::optional<torch::Tensor> scale_or_none;
  if (scale.defined()) scale_or_none = scale;
  return ops::value_gather(table, token_ids, scale_or_none, dtype, index)
      .unflatten(-1, {options_.n_kv_head(), options_.head_dim()});
}

void BankOfValuesImpl::align(const torch::Tensor& embedding, const torch::Tensor& projection) {
  torch::NoGradGuard no_grad;
  TORCH_CHECK(embedding.dim() == 2 && embedding.size(0) == table.size(0) && projection.dim() == 2 &&
                  projection.size(0) == table.size(1) && projection.size(1) == embedding.size(1),
              "BankOfValues::align: expected embedding [", table.size(0), ", C] and projection [",
              table.size(1), ", C], got ", embedding.sizes(), " and ", projection.sizes());
  if (table.is_meta()) return;
  const auto dtype = c10::promoteTypes(embedding.scalar_type(), torch::kFloat32);
  table.copy_(torch::linear(rms_norm(embedding.to(dtype)), projection.to(dtype)));
}

}  // namespace bov
