#include "bov/decode/bank_table.h"

namespace bov {
namespace {

constexpr double kLargest = 127;

}  // namespace

BankTable quantize_rows(const torch::Tensor& table) {
  TORCH_CHECK(table.dim() == 2 && table.is_floating_point(),
              "quantize_rows: expected a float table [R, W], got ", table.scalar_type(), " ", table.sizes());
  const torch::Tensor precise = table.detach().to(torch::kFloat32);
  TORCH_CHECK(torch::isfinite(precise).all().item<bool>(),
              "quantize_rows: the table holds a NaN or an infinity");
  const torch::Tensor scale = std::get<0>(precise.abs().max(1)) / kLargest;
  const torch::Tensor rows = precise / scale.where(scale > 0, 1.0).unsqueeze(1);
  return {rows.round().to(torch::kInt8), scale};
}

torch::Tensor dequantize_rows(const BankTable& table, torch::Dtype dtype) {
  if (!table.row_scale) return table.rows.to(dtype);
  return (table.rows * table.row_scale->unsqueeze(1)).to(dtype);
}

torch::Tensor gather_rows(const BankTable& table, const torch::Tensor& row_numbers, torch::Dtype dtype) {
  const torch::Tensor index = row_numbers.flatten().to(torch::kInt64);
  BankTable gathered{table.rows.index_select(0, index), std::nullopt};
  if (table.row_scale) gathered.row_scale = table.row_scale->index_select(0, index);
  std::vector<int64_t> shape = row_numbers.sizes().vec();
  shape.push_back(table.rows.size(1));
  return dequantize_rows(gathered, dtype).view(shape);
}

}  // namespace bov
