#include "bov/model/mlp.h"

#include <torch/autograd.h>

#include <cmath>

namespace bov {
namespace {

/// relu(x)²: with r = relu(x) kept, the gradient is 2·r·dy, zero where x is negative.
class SquaredRelu : public torch::autograd::Function<SquaredRelu> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& x) {
    const torch::Tensor r = torch::relu(x);
    context->save_for_backward({r});
    return r.square();
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    return {gradients[0].mul(context->get_saved_variables()[0]).mul_(2)};
  }
};

}  // namespace

MLPImpl::MLPImpl(int64_t n_embd, torch::Dtype dtype) : n_embd_(n_embd), dtype_(dtype) {
  reset();
}

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
  return torch::linear(SquaredRelu::apply(torch::linear(x, up.to(dtype))), down.to(dtype));
}

}  // namespace bov
