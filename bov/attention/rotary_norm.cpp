#include "bov/attention/rotary_norm.h"

#include <ATen/Parallel.h>
#include <torch/autograd.h>

#include "bov/attention/rotary_shapes.h"
#include "bov/model/rms_norm.h"
#include "bov/model/row_norm.h"

namespace bov {
namespace {

/// Runs Loop over all rows of x and returns what it makes of them.
template <typename Loop>
torch::Tensor run(const torch::Tensor& x,
                  const torch::Tensor& upstream,
                  const torch::Tensor& cos,
                  const torch::Tensor& sin,
                  double scale) {
  torch::Tensor out = torch::empty_like(x);
  const int64_t width = x.size(3);
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "rotary_rms_norm", [&] {
    const row_norm::RotatedRows<scalar_t> rows{
        {x.const_data_ptr<scalar_t>(), upstream.defined() ? upstream.const_data_ptr<scalar_t>() : nullptr,
         out.mutable_data_ptr<scalar_t>(), width, static_cast<scalar_t>(kRmsNormEpsilon)},
        cos.const_data_ptr<scalar_t>(),
        sin.const_data_ptr<scalar_t>(),
        x.size(1),
        x.size(2),
        static_cast<scalar_t>(scale)};
    at::parallel_for(0, x.numel() / width, row_norm::rows_per_task(width),
                     [&](int64_t begin, int64_t end) { ops::cpu::run_widest<Loop>(rows, begin, end); });
  });
  return out;
}

class RotaryRmsNorm : public torch::autograd::Function<RotaryRmsNorm> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* context,
                               const torch::Tensor& input,
                               const torch::Tensor& cos,
                               const torch::Tensor& sin,
                               double scale) {
    const torch::Tensor x = input.contiguous();
    context->save_for_backward({x, cos, sin});
    context->saved_data["scale"] = scale;
    return run<row_norm::RotaryForward>(x, {}, cos, sin, scale);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const double scale = context->saved_data["scale"].toDouble();
    return {run<row_norm::RotaryBackward>(saved[0], gradients[0].contiguous(), saved[1], saved[2], scale),
            {},
            {},
            {}};
  }
};

}  // namespace

torch::Tensor rotary_rms_norm(const torch::Tensor& x, const RotaryTables& tables, double scale) {
  check_rotary_shapes("rotary_rms_norm", x, tables);
  const bool fused = x.is_cpu() && x.numel() > 0 && tables.cos.scalar_type() == x.scalar_type() &&
                     (x.scalar_type() == torch::kFloat32 || x.scalar_type() == torch::kFloat64);
  if (fused) return RotaryRmsNorm::apply(x, tables.cos.contiguous(), tables.sin.contiguous(), scale);
  return rms_norm(apply_rotary(x, tables)) * scale;
}

}  // namespace bov
