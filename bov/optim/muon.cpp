#include "bov/optim/muon.h"

#include <ATen/OpMathType.h>
#include <ATen/ops/_foreach_lerp.h>
#include <ATen/ops/_foreach_sub.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/div.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/lerp.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/optim/serialize.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>

namespace bov {
namespace {

/// Coefficients (a, b, c) of the odd polynomials x -> x·(a + b·x² + c·x⁴), in order of use.
constexpr std::array<std::array<double, 3>, 5> kPolarExpress = {{
    {8.156554524902461, -22.48329292557795, 15.878769915207462},
    {4.042929935166739, -2.808917465908714, 0.5000178451051316},
    {3.8916678022926607, -2.772484153217685, 0.5060648178503393},
    {3.285753657755655, -2.3681294933425376, 0.46449024233003106},
    {2.3465413258596377, -1.7097828382687081, 0.42323551169305323},
}};

constexpr double kSmallestVariance = 1e-10;

/// Matrices of one shape, dtype and device, with their gradients and state.
struct Batch {
  std::vector<at::Tensor> parameters, gradients, momentum_buffers, second_moments;
};
using BatchKey = std::tuple<int64_t, int64_t, c10::ScalarType, c10::DeviceType, c10::DeviceIndex>;

void validate(const MuonOptions& options) {
  TORCH_CHECK(options.lr() >= 0, "Muon: lr must be at least 0, got ", options.lr());
  TORCH_CHECK(0 <= options.momentum() && options.momentum() < 1, "Muon: momentum must be in [0, 1), got ",
              options.momentum());
  TORCH_CHECK(0 <= options.beta2() && options.beta2() < 1, "Muon: beta2 must be in [0, 1), got ",
              options.beta2());
  TORCH_CHECK(options.weight_decay() >= 0, "Muon: weight_decay must be at least 0, got ",
              options.weight_decay());
  TORCH_CHECK(!options.polar_dtype() || c10::isFloatingType(*options.polar_dtype()),
              "Muon: polar_dtype must be a floating dtype, got ", *options.polar_dtype());
}

torch::Dtype polar_dtype(const MuonOptions& options, const at::Tensor& parameter) {
  return options.polar_dtype().value_or(parameter.is_cuda() ? at::kBFloat16 : parameter.scalar_type());
}

/// Advances the momentum buffers and returns the Nesterov direction (1-μ)·G + μ·buffer, [K, rows, columns].
at::Tensor nesterov_direction(Batch& batch, double momentum) {
  at::_foreach_lerp_(batch.momentum_buffers, batch.gradients, 1 - momentum);
  const auto& shape = batch.parameters[0].sizes();
  const auto count = static_cast<int64_t>(batch.parameters.size());
  auto direction = at::empty({count, shape[0], shape[1]}, batch.parameters[0].options());
  auto slices = direction.unbind(0);
  for (size_t i = 0; i < slices.size(); ++i) {
    at::lerp_out(slices[i], batch.gradients[i], batch.momentum_buffers[i], momentum);
  }
  return direction;
}

/// Advances the variance estimates with `update` [K, rows, columns] and returns the factors [K, rows, 1] or
/// [K, 1, columns] that even out the rows or columns and keep each matrix's Frobenius norm.
at::Tensor variance_reduction(Batch& batch, const at::Tensor& update, double beta2) {
  const int64_t reduced = update.size(-2) >= update.size(-1) ? -1 : -2;
  const auto extent = static_cast<double>(update.size(reduced));
  const auto mean_square = update.square().mean(reduced, /*keepdim=*/true);
  at::_foreach_lerp_(batch.second_moments, mean_square.unbind(0), 1 - beta2);
  const auto scale = at::stack(batch.second_moments).clamp_min_(kSmallestVariance).rsqrt_();
  const auto norm_of = [&](const at::Tensor& squares) {
    return (squares.sum({-2, -1}, /*keepdim=*/true) * extent).sqrt_();
  };
  const auto norm = norm_of(mean_square);
  const auto scaled_norm = norm_of(mean_square * scale.square()).clamp_min_(kSmallestVariance);
  return scale * (norm / scaled_norm);
}

/// P <- P - lr·(X + decay·P where X·P >= 0).
void apply_update(Batch& batch, at::Tensor update, double lr, double weight_decay) {
  if (weight_decay != 0) {
    const auto parameters = at::stack(batch.parameters);
    update.add_((update * parameters).ge_(0).mul_(parameters), weight_decay);
  }
  at::_foreach_sub_(batch.parameters, update.unbind(0), lr);
}

void update_batch(Batch& batch, const MuonOptions& options) {
  const auto& first = batch.parameters[0];
  const double shape_factor = std::sqrt(std::max(1.0, static_cast<double>(first.size(0)) / first.size(1)));
  auto direction = nesterov_direction(batch, options.momentum());
  auto orthogonal = polar_express(direction.to(polar_dtype(options, first)));
  const auto factor = variance_reduction(batch, orthogonal.to(first.scalar_type()), options.beta2());
  orthogonal.mul_(factor.to(orthogonal.scalar_type()));
  apply_update(batch, orthogonal.to(first.scalar_type()), options.lr() * shape_factor,
               options.weight_decay());
}

}  // namespace

torch::Tensor polar_express(const torch::Tensor& matrices) {
  TORCH_CHECK(matrices.dim() == 3 && matrices.is_floating_point(),
              "polar_express: expected floating [K, rows, columns], got ", matrices.toString(), " of sizes ",
              matrices.sizes());
  const bool tall = matrices.size(1) > matrices.size(2);
  const int64_t side = std::min(matrices.size(1), matrices.size(2));
  const auto norm = at::linalg_vector_norm(matrices, 2, at::IntArrayRef{1, 2}, true,
                                           at::toOpMathType(matrices.scalar_type()));
  auto x = at::empty_like(matrices, at::MemoryFormat::Contiguous);
  at::div_out(x, matrices, norm * 1.01 + 1e-6);
  auto next = at::empty_like(x);
  auto gram = at::empty({matrices.size(0), side, side}, x.options());
  auto polynomial = at::empty_like(gram);
  for (const auto& [a, b, c] : kPolarExpress) {
    // The smaller Gram matrix: XᵀX for tall matrices, XXᵀ otherwise.
    tall ? at::bmm_out(gram, x.mT(), x) : at::bmm_out(gram, x, x.mT());
    at::baddbmm_out(polynomial, gram, gram, gram, b, c);
    tall ? at::baddbmm_out(next, x, x, polynomial, a) : at::baddbmm_out(next, x, polynomial, x, a);
    std::swap(x, next);
  }
  return x;
}

Muon::Muon(const std::vector<torch::optim::OptimizerParamGroup>& groups, MuonOptions defaults)
    : StatefulOptimizer(groups, std::make_unique<MuonOptions>(std::move(defaults))) {
  validate(static_cast<const MuonOptions&>(*defaults_));
  for (const auto& group : param_groups_) {
    validate(static_cast<const MuonOptions&>(group.options()));
    for (const auto& parameter : group.params()) {
      const auto dtype = parameter.scalar_type();
      TORCH_CHECK(parameter.dim() == 2 && (dtype == at::kFloat || dtype == at::kDouble),
                  "Muon: a parameter must be a float32 or float64 matrix, got ", parameter.toString(),
                  " of sizes ", parameter.sizes());
    }
  }
}

MuonParamState Muon::initial_state(const torch::Tensor& parameter) const {
  const int64_t rows = parameter.size(0), columns = parameter.size(1);
  const auto values = parameter.detach();
  return MuonParamState()
      .momentum_buffer(at::zeros_like(values))
      .second_moment(rows >= columns ? at::zeros({rows, 1}, values.options())
                                     : at::zeros({1, columns}, values.options()));
}

void Muon::update(torch::optim::OptimizerParamGroup& group) {
  std::map<BatchKey, Batch> batches;
  for (const auto& parameter : group.params()) {
    const auto& gradient = parameter.grad();
    if (!gradient.defined() || parameter.numel() == 0) continue;
    TORCH_CHECK(gradient.layout() == at::kStrided, "Muon: gradients must be dense, got layout ",
                gradient.layout());
    auto& state = state_of(parameter);
    const auto device = parameter.device();
    auto& batch = batches[{parameter.size(0), parameter.size(1), parameter.scalar_type(), device.type(),
                           device.index()}];
    batch.parameters.push_back(parameter);
    batch.gradients.push_back(gradient);
    batch.momentum_buffers.push_back(state.momentum_buffer());
    batch.second_moments.push_back(state.second_moment());
  }
  for (auto& [key, batch] : batches) update_batch(batch, static_cast<const MuonOptions&>(group.options()));
}

void MuonOptions::serialize(torch::serialize::OutputArchive& archive) const {
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(lr);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(momentum);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(beta2);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(weight_decay);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(polar_dtype);
}

void MuonOptions::serialize(torch::serialize::InputArchive& archive) {
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, lr);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, momentum);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, beta2);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, weight_decay);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG_OPTIONAL(torch::Dtype, polar_dtype);
}

void MuonParamState::serialize(torch::serialize::OutputArchive& archive) const {
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(momentum_buffer);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(second_moment);
}

void MuonParamState::serialize(torch::serialize::InputArchive& archive) {
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(torch::Tensor, momentum_buffer);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(torch::Tensor, second_moment);
}

}  // namespace bov
