#include "bov/attention/rotary.h"

#include <cmath>

#include "bov/attention/rotary_shapes.h"

namespace bov {

RotaryTables rotary_tables(const torch::Tensor& positions,
                           int64_t head_dim,
                           double base,
                           torch::Dtype dtype) {
  TORCH_CHECK(positions.dim() == 1, "rotary_tables: positions must be [T], got ", positions.sizes());
  TORCH_CHECK(head_dim > 0 && head_dim % 2 == 0, "rotary_tables: head_dim must be even, got ", head_dim);
  const auto precise = dtype == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
  const auto options = torch::TensorOptions(precise).device(positions.device());
  const torch::Tensor exponents = torch::arange(0, head_dim, 2, options) / static_cast<double>(head_dim);
  const torch::Tensor frequencies = torch::exp(exponents * -std::log(base));
  const torch::Tensor angles = (positions.to(precise).unsqueeze(1) * frequencies).unsqueeze(1);
  return {angles.cos().to(dtype), angles.sin().to(dtype)};
}

void check_rotary_shapes(const char* what, const torch::Tensor& x, const RotaryTables& tables) {
  TORCH_CHECK(x.dim() == 4 && tables.cos.dim() == 3 && tables.cos.size(0) == x.size(1) &&
                  2 * tables.cos.size(-1) == x.size(3) && tables.sin.sizes() == tables.cos.sizes(),
              what, ": x must be [B, T, H, D] with tables [T, 1, D/2], got ", x.sizes(), " and ",
              tables.cos.sizes());
}

torch::Tensor apply_rotary(const torch::Tensor& x, const RotaryTables& tables) {
  check_rotary_shapes("apply_rotary", x, tables);
  const auto halves = x.chunk(2, -1);
  return torch::cat(
      {halves[0] * tables.cos + halves[1] * tables.sin, halves[1] * tables.cos - halves[0] * tables.sin}, -1);
}

}  // namespace bov
