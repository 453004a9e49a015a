#include "bov/model/rms_norm.h"

#include <ATen/Parallel.h>
#include <ATen/ops/rms_norm.h>
#include <torch/autograd.h>

#include "bov/model/row_norm.h"

namespace bov {
namespace {

/// Runs Loop over all rows of x and returns what it makes of them.
template <typename Loop>
torch::Tensor run(const torch::Tensor& x, const torch::Tensor& upstream) {
  torch::Tensor out = torch::empty_like(x);
  const int64_t width = x.size(-1);
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "rms_norm", [&] {
    const row_norm::Rows<scalar_t> rows{
        x.const_data_ptr<scalar_t>(), upstream.defined() ? upstream.const_data_ptr<scalar_t>() : nullptr,
        out.mutable_data_ptr<scalar_t>(), width, static_cast<scalar_t>(kRmsNormEpsilon)};
    at::parallel_for(0, x.numel() / width, row_norm::rows_per_task(width),
                     [&](int64_t begin, int64_t end) { ops::cpu::run_widest<Loop>(rows, begin, end); });
  });
  return out;
}

/// One pass over x in each direction, for the CPU: composed of ATen's operations the norm takes ten.
class RmsNorm : public torch::autograd::Function<RmsNorm> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& input) {
    const torch::Tensor x = input.contiguous();
    context->save_for_backward({x});
    return run<row_norm::Forward>(x, {});
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    return {run<row_norm::Backward>(context->get_saved_variables()[0], gradients[0].contiguous())};
  }
};

}  // namespace

torch::Tensor rms_norm(const torch::Tensor& x) {
  TORCH_CHECK(x.dim() > 0 && x.is_floating_point(), "rms_norm: x must be floating [.., C], got ",
              x.scalar_type(), " ", x.sizes());
  const bool fused = x.is_cpu() && x.numel() > 0 &&
                     (x.scalar_type() == torch::kFloat32 || x.scalar_type() == torch::kFloat64);
  return fused ? RmsNorm::apply(x) : at::rms_norm(x, {x.size(-1)}, {}, kRmsNormEpsilon);
}

}  // namespace bov
