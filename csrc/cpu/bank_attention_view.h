#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "csrc/bank_attention.h"

namespace bov::ops::cpu {

/// The slots of one sequence that at least one of its queries sees, and their token ids.
struct SequenceView {
  int64_t length;  ///< filled slots
  int64_t first;   ///< first slot in view; the view ends at `length`
  std::vector<int32_t> ids;

  /// For the aggregated algorithm: the distinct ids in order of appearance, and each slot's place among them.
  bool aggregated = false;
  std::vector<int32_t> distinct, place;

  int64_t count() const { return length - first; }
};

/// Views of all sequences. Throws c10::Error for a length or an id in view outside its range; work and memory
/// are in proportion to the views.
std::vector<SequenceView> view_sequences(const at::Tensor& ids,
                                         const at::Tensor& lengths,
                                         int64_t queries,
                                         int64_t left,
                                         int64_t table_rows,
                                         BankAlgorithm algorithm);

}  // namespace bov::ops::cpu
