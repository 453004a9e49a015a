#include "bov/model/smear.h"

namespace bov {
namespace {

constexpr int64_t kGateChannels = 24;

}  // namespace

SmearImpl::SmearImpl(int64_t n_embd, torch::Dtype dtype) : n_embd_(n_embd), dtype_(dtype) {
  reset();
}

void SmearImpl::reset() {
  TORCH_CHECK(n_embd_ > 0, "Smear: n_embd must be positive, got ", n_embd_);
  gate = register_parameter("gate", torch::empty({1, std::min(kGateChannels, n_embd_)}, dtype_));
  lambda = register_parameter("lambda", torch::empty({1}, dtype_));
  reset_parameters();
}

void SmearImpl::reset_parameters() {
  torch::NoGradGuard no_grad;
  gate.zero_();
  lambda.zero_();
}

torch::Tensor SmearImpl::forward(const torch::Tensor& x, const torch::Tensor& previous) {
  TORCH_CHECK(x.dim() == 3 && x.size(2) == n_embd_, "Smear: x must be [B, T, ", n_embd_, "], got ",
              x.sizes());
  TORCH_CHECK(!previous.defined() || (previous.dim() == 3 && previous.size(0) == x.size(0) &&
                                      previous.size(1) == 1 && previous.size(2) == n_embd_),
              "Smear: previous must be [", x.size(0), ", 1, ", n_embd_, "], got ", previous.sizes());
  const auto dtype = x.scalar_type();
  const bool goes_on = previous.defined();
  const torch::Tensor current = goes_on ? x : x.slice(1, 1);
  const torch::Tensor earlier = x.slice(1, 0, -1);
  const torch::Tensor weight =
      lambda.to(dtype) * torch::sigmoid(torch::linear(current.slice(-1, 0, gate.size(1)), gate.to(dtype)));
  if (goes_on) return current + weight * torch::cat({previous, earlier}, 1);
  return torch::cat({x.slice(1, 0, 1), current + weight * earlier}, 1);
}

}  // namespace bov
