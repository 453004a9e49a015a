#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/SymInt.h>
#include <c10/util/Exception.h>

#include <limits>
#include <tuple>

/// What token_index accepts and returns, said once for its CPU, CUDA and Meta kernels and for operators that take its
/// result.
namespace bov::ops {

using TokenIndexTensors = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

/// Throws c10::Error unless `ids` may be ids; `op` begins the message.
inline void check_ids(const char* op, const at::Tensor& ids) {
  TORCH_CHECK(ids.scalar_type() == at::kLong || ids.scalar_type() == at::kInt, op,
              ": ids must be int64 or int32, got ", ids.scalar_type());
}

inline void check_token_index(const at::Tensor& ids, const c10::SymInt& rows) {
  constexpr int64_t kLimit = std::numeric_limits<int32_t>::max();
  check_ids("token_index", ids);
  TORCH_CHECK(rows >= 0 && rows < kLimit, "token_index: rows must be in [0, 2^31 - 1), got ", rows);
  TORCH_CHECK(ids.sym_numel() < kLimit, "token_index: there must be fewer than 2^31 - 1 ids, got ",
              ids.sym_numel());
}

/// Entries for distinct ids: as many as there can be.
inline c10::SymInt distinct_capacity(const at::Tensor& ids, const c10::SymInt& rows) {
  return ids.sym_numel().min(rows);
}

/// Results to be filled: positions, offsets, distinct, count.
TokenIndexTensors empty_token_index(const at::Tensor& ids, const c10::SymInt& rows);

}  // namespace bov::ops
