#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>

#include "csrc/cpu/bank_attention_scores.h"

namespace bov::ops::cpu {

/// Rows of a key cache or a table, of any dtype that bank_attention accepts.
struct StoredRows {
  at::ScalarType type;
  const void* data;
  int64_t row_stride;   ///< elements from one slot or table row to the next
  int64_t head_stride;  ///< elements from one head to the next
};

/// The loops of bank_attention over one stretch of slots or rows, in the widest instruction set that the
/// processor has; Compute is float or double.
template <typename Compute>
struct BankPasses {
  /// out[row, :] = scale * in[row, :] in the order in which elements of `type` are met, or back from it.
  static void reorder(at::ScalarType type,
                      const Compute* in,
                      int64_t rows,
                      int64_t width,
                      bool back,
                      Compute scale,
                      Compute* out);

  /// scores[slot, row] of the slots [begin, begin + count) of `keys`, for ordered and scaled queries.
  static void score(const QueryGroups& shape,
                    const StoredRows& keys,
                    int64_t begin,
                    int64_t count,
                    const Compute* queries,
                    Compute* scores);

  /// See MaxOfScores.
  static void largest(const Compute* scores, int64_t count, int64_t padded, Compute* largest);

  static void weigh(const typename WeighSlots<Compute>::Problem& problem);

  /// out[row, :] = sum over k of weights[k, row] * table[ids[k]], in the order of elements of the table's type.
  static void add_rows(const QueryGroups& shape,
                       const StoredRows& table,
                       const int32_t* ids,
                       const Compute* weights,
                       int64_t count,
                       Compute* out);
};

extern template struct BankPasses<float>;
extern template struct BankPasses<double>;

}  // namespace bov::ops::cpu
