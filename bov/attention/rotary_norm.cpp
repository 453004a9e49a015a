#include "bov/attention/rotary_norm.h"

#include <ATen/Parallel.h>
#include <torch/autograd.h>

#include "bov/model/rms_norm.h"
#include "bov/model/row_norm.h"

namespace bov {
namespace {

constexpr int64_t kGrainElements = 32768;

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
    torch::Tensor y = torch::empty_like(x);
    run<row_norm::RotaryForward>(x, cos, sin, scale, y, [](auto) { return std::tuple<>(); });
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const torch::Tensor upstream = gradients[0].contiguous();
    torch::Tensor result = torch::empty_like(saved[0]);
    run<row_norm::RotaryBackward>(
        saved[0], saved[1], saved[2], context->saved_data["scale"].toDouble(), result,
        [&](auto zero) { return std::tuple(upstream.const_data_ptr<decltype(zero)>()); });
    return {result, {}, {}, {}};
  }

 private:
  /// Runs Loop over all rows; `more` gives the pointers that stand between the tables and the output.
  template <typename Loop, typename More>
  static void run(const torch::Tensor& x,
                  const torch::Tensor& cos,
                  const torch::Tensor& sin,
                  double scale,
                  torch::Tensor& output,
                  const More& more) {
    const int64_t positions = x.size(1), heads = x.size(2), width = x.size(3);
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "rotary_rms_norm", [&] {
      const scalar_t* in = x.const_data_ptr<scalar_t>();
      const scalar_t* c = cos.const_data_ptr<scalar_t>();
      const scalar_t* s = sin.const_data_ptr<scalar_t>();
      scalar_t* out = output.mutable_data_ptr<scalar_t>();
      at::parallel_for(0, x.numel() / width, std::max<int64_t>(1, kGrainElements / width),
                       [&](int64_t begin, int64_t end) {
                         std::apply(
                             [&](auto... pointers) {
                               ops::cpu::run_widest<Loop>(in, c, s, pointers..., out, begin, end, heads,
                                                          positions, width, static_cast<scalar_t>(scale),
                                                          static_cast<scalar_t>(kRmsNormEpsilon));
                             },
                             more(scalar_t()));
                       });
    });
  }
};

}  // namespace

torch::Tensor rotary_rms_norm(const torch::Tensor& x, const RotaryTables& tables, double scale) {
  TORCH_CHECK(x.dim() == 4 && tables.cos.size(0) == x.size(1) && 2 * tables.cos.size(-1) == x.size(3),
              "rotary_rms_norm: x must be [B, T, H, D] with tables [T, 1, D/2], got ", x.sizes(), " and ",
              tables.cos.sizes());
  const bool fused = x.is_cpu() && x.numel() > 0 && tables.cos.scalar_type() == x.scalar_type() &&
                     (x.scalar_type() == torch::kFloat32 || x.scalar_type() == torch::kFloat64);
  if (fused) return RotaryRmsNorm::apply(x, tables.cos.contiguous(), tables.sin.contiguous(), scale);
  return rms_norm(apply_rotary(x, tables)) * scale;
}

}  // namespace bov
