#include "bov/model/rms_norm.h"

#include <ATen/Parallel.h>
#include <ATen/ops/rms_norm.h>
#include <torch/autograd.h>

#include "bov/model/row_norm.h"

namespace bov {
namespace {

/// Rows that are worth a thread of their own.
int64_t grain(int64_t width) {
  return std::max<int64_t>(1, 32768 / width);
}

/// One pass over x in each direction, for the CPU: composed of ATen's operations the norm takes ten.
class RmsNorm : public torch::autograd::Function<RmsNorm> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& input) {
    const torch::Tensor x = input.contiguous();
    context->save_for_backward({x});
    torch::Tensor y = torch::empty_like(x);
    const int64_t width = x.size(-1);
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "rms_norm", [&] {
      const scalar_t* in = x.const_data_ptr<scalar_t>();
      scalar_t* out = y.mutable_data_ptr<scalar_t>();
      at::parallel_for(0, x.numel() / width, grain(width), [&](int64_t begin, int64_t end) {
        ops::cpu::run_widest<row_norm::Forward>(in, out, begin, end, width,
                                                static_cast<scalar_t>(kRmsNormEpsilon));
      });
    });
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const torch::Tensor x = context->get_saved_variables()[0];
    const torch::Tensor upstream = gradients[0].contiguous();
    torch::Tensor result = torch::empty_like(x);
    const int64_t width = x.size(-1);
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "rms_norm_backward", [&] {
      const scalar_t* in = x.const_data_ptr<scalar_t>();
      const scalar_t* dy = upstream.const_data_ptr<scalar_t>();
      scalar_t* dx = result.mutable_data_ptr<scalar_t>();
      at::parallel_for(0, x.numel() / width, grain(width), [&](int64_t begin, int64_t end) {
        ops::cpu::run_widest<row_norm::Backward>(in, dy, dx, begin, end, width,
                                                 static_cast<scalar_t>(kRmsNormEpsilon));
      });
    });
    return {result};
  }
};

}  // namespace

torch::Tensor rms_norm(const torch::Tensor& x) {
  const bool fused = x.is_cpu() && x.numel() > 0 &&
                     (x.scalar_type() == torch::kFloat32 || x.scalar_type() == torch::kFloat64);
  return fused ? RmsNorm::apply(x) : at::rms_norm(x, {x.size(-1)}, {}, kRmsNormEpsilon);
}

}  // namespace bov
