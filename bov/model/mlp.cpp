#include "bov/model/mlp.h"

#include <cmath>

namespace bov {

MLPImpl::MLPImpl(int64_t n_embd, torch::Dtype dtype) : n_embd_(n_embd), dtype_(dtype) { reset(); }

void MLPImpl::reset() {
  TORCH_CHECK(n_embd_ > 0, "MLP: n_embd must be positive, got ", n_embd_);
  up = register_parameter("up", torch::empty({4 * n_embd_, n_embd_}, dtype_));
  down = register_parameter("down", torch::empty({n_embd_, 4 * n_embd_}, dtype_));
  reset_parameters();
}

void MLPImpl::reset_parameters() {
  torch::NoGradGuard no_grad;
  const double s = 0.4 * std::sqrt(3.0 / static_cast<double>(n_embd_));
  up.uniform_(-s, s);
  down.zero_();
}

torch::Tensor MLPImpl::forward(const torch::Tensor& x) {
  const auto dtype = x.scalar_type();
  return torch::linear(torch::relu(torch::linear(x, up.to(dtype))).square(), down.to(dtype));
}

}  // namespace bov
