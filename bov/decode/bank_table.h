#pragma once

#include <torch/types.h>

#include <optional>

#include "bov/export.h"

namespace bov {

/// One layer's table E_V as decoding reads it: the value vector of row r is rows[r], times row_scale[r] if rows are int8.
struct BOV_API BankTable {
  torch::Tensor rows;                      ///< [R, Hkv·D]
  std::optional<torch::Tensor> row_scale;  ///< [R] float32; with int8 rows alone
};

/// Rows of `table` [R, W] as int8 with one scale each: row_scale[r] = max|row r| / 127, rounded to nearest; a row of zeros
/// has scale 0. The largest error of an entry is row_scale / 2. Throws c10::Error if the table is not a finite float
/// matrix.
BOV_API BankTable quantize_rows(const torch::Tensor& table);

/// The value vectors of all rows, [R, W] in `dtype`, a floating one. Throws c10::Error, LibTorch's, if row_scale has
/// another number of rows.
BOV_API torch::Tensor dequantize_rows(const BankTable& table, torch::Dtype dtype);

/// The value vectors of the rows `row_numbers` (any integral dtype and shape [..]) -> [.., W] in `dtype`. Throws
/// c10::Error, LibTorch's, for a row outside [0, R).
BOV_API torch::Tensor gather_rows(const BankTable& table,
                                  const torch::Tensor& row_numbers,
                                  torch::Dtype dtype);

}  // namespace bov
