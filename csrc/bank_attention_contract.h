#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>
#include <c10/core/SymInt.h>
#include <c10/util/Exception.h>
#include <c10/util/string_view.h>

#include <array>
#include <optional>
#include <utility>

#include "csrc/bank_attention.h"
#include "csrc/value_dtype.h"

/// What bank_attention accepts, said once and called by its CPU, CUDA and Meta kernels. Lengths and the range
/// of ids are a matter of values, so each device's kernel checks them.
namespace bov::ops {

inline constexpr std::array<std::pair<const char*, BankAlgorithm>, 3> kBankAlgorithms = {
    {{"automatic", BankAlgorithm::automatic},
     {"indirect", BankAlgorithm::indirect},
     {"aggregated", BankAlgorithm::aggregated}}};

inline const char* algorithm_name(BankAlgorithm algorithm) {
  for (const auto& [name, value] : kBankAlgorithms) {
    if (value == algorithm) {
      return name;
    }
  }
  TORCH_CHECK(false, "bank_attention: no algorithm has the number ", static_cast<int>(algorithm));
}

inline BankAlgorithm algorithm_named(c10::string_view wanted) {
  for (const auto& [name, value] : kBankAlgorithms) {
    if (wanted == name) {
      return value;
    }
  }
  TORCH_CHECK(false, "bank_attention: algorithm must be automatic, indirect or aggregated, got \"", wanted,
              "\"");
}

namespace detail {

/// float64 where q is float64, else a dtype that float32 arithmetic loses nothing of.
inline bool is_bank_dtype(at::ScalarType dtype, at::ScalarType q) {
  return is_value_dtype(dtype) && (dtype != at::kDouble || q == at::kDouble);
}

inline bool is_id_dtype(at::ScalarType dtype) {
  return dtype == at::kLong || dtype == at::kInt || dtype == at::kShort || dtype == at::kUInt16 ||
         dtype == at::kByte;
}

inline void check_device(const char* name, const at::Tensor& tensor, const at::Tensor& q) {
  TORCH_CHECK(tensor.device() == q.device(), "bank_attention: ", name, " is on ", tensor.device(),
              " but q is on ", q.device());
}

inline void check_table(const at::Tensor& q,
                        const at::Tensor& keys,
                        const at::Tensor& table,
                        const std::optional<at::Tensor>& row_scale) {
  check_device("table", table, q);
  TORCH_CHECK(table.dim() == 2 && table.sym_size(1) == keys.sym_size(2) * keys.sym_size(3),
              "bank_attention: table must be [rows, ", keys.sym_size(2), " * ", keys.sym_size(3), "], got ",
              table.sym_sizes());
  TORCH_CHECK(table.scalar_type() == at::kChar || is_bank_dtype(table.scalar_type(), q.scalar_type()),
              "bank_attention: table must be float32, bfloat16, float16, int8, or float64 with a float64 q, "
              "got ",
              table.scalar_type());
  TORCH_CHECK(table.sym_size(1) == 1 || table.sym_stride(1) == 1,
              "bank_attention: the columns of table must be adjacent, got strides ", table.sym_strides());
  TORCH_CHECK(row_scale.has_value() == (table.scalar_type() == at::kChar),
              "bank_attention: row_scale goes with an int8 table and only with one, but table is ",
              table.scalar_type(), row_scale.has_value() ? " with" : " without", " row_scale");
  if (row_scale.has_value()) {
    check_device("row_scale", *row_scale, q);
    TORCH_CHECK(row_scale->dim() == 1 && row_scale->sym_size(0) == table.sym_size(0) &&
                    row_scale->scalar_type() == at::kFloat && row_scale->is_contiguous(),
                "bank_attention: row_scale must be [", table.sym_size(0), "] float32 and contiguous, got ",
                row_scale->sym_sizes(), " ", row_scale->scalar_type());
  }
}

}  // namespace detail

/// Throws c10::Error unless the arguments are as bank_attention.h says.
inline void check_bank_attention(const at::Tensor& q,
                                 const at::Tensor& keys,
                                 const at::Tensor& table,
                                 const at::Tensor& ids,
                                 const at::Tensor& lengths,
                                 int64_t left,
                                 const std::optional<at::Tensor>& scale,
                                 const std::optional<at::Tensor>& row_scale) {
  TORCH_CHECK(q.dim() == 4 && q.sym_size(3) >= 1,
              "bank_attention: q must be [batch, queries, heads, head size], got ", q.sym_sizes());
  TORCH_CHECK(is_value_dtype(q.scalar_type()),
              "bank_attention: q must be float64, float32, bfloat16 or float16, got ", q.scalar_type());
  detail::check_device("keys", keys, q);
  TORCH_CHECK(
      keys.dim() == 4 && keys.sym_size(0) == q.sym_size(0) && keys.sym_size(3) == q.sym_size(3),
      "bank_attention: keys must be [batch, slots, key heads, head size] with the batch and head size "
      "of q ",
      q.sym_sizes(), ", got ", keys.sym_sizes());
  TORCH_CHECK(keys.sym_size(2) >= 1 && q.sym_size(2) % keys.sym_size(2) == 0, "bank_attention: the ",
              q.sym_size(2), " heads of q are no multiple of the ", keys.sym_size(2), " heads of keys");
  TORCH_CHECK(detail::is_bank_dtype(keys.scalar_type(), q.scalar_type()),
              "bank_attention: keys must be float32, bfloat16, float16, or float64 with a float64 q, got ",
              keys.scalar_type());
  TORCH_CHECK(keys.sym_size(3) == 1 || keys.sym_stride(3) == 1,
              "bank_attention: the last dimension of keys must be adjacent in memory, got strides ",
              keys.sym_strides());
  detail::check_table(q, keys, table, row_scale);
  detail::check_device("ids", ids, q);
  TORCH_CHECK(ids.dim() == 2 && ids.sym_size(0) == keys.sym_size(0) && ids.sym_size(1) == keys.sym_size(1),
              "bank_attention: ids must be [", keys.sym_size(0), ", ", keys.sym_size(1), "], got ",
              ids.sym_sizes());
  TORCH_CHECK(detail::is_id_dtype(ids.scalar_type()),
              "bank_attention: ids must be int64, int32, int16, uint16 or uint8, got ", ids.scalar_type());
  detail::check_device("lengths", lengths, q);
  TORCH_CHECK(
      lengths.dim() == 1 && lengths.sym_size(0) == q.sym_size(0) && lengths.scalar_type() == at::kLong,
      "bank_attention: lengths must be [", q.sym_size(0), "] int64, got ", lengths.sym_sizes(), " ",
      lengths.scalar_type());
  TORCH_CHECK(left >= 0, "bank_attention: left must not be negative, got ", left);
  if (scale.has_value()) {
    detail::check_device("scale", *scale, q);
    TORCH_CHECK(scale->sym_numel() == 1 && is_value_dtype(scale->scalar_type()),
                "bank_attention: scale must be one float64, float32, bfloat16 or float16 number, got ",
                scale->sym_sizes(), " ", scale->scalar_type());
  }
}

}  // namespace bov::ops
