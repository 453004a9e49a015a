#pragma once

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace bov::ops::cpu {

// Work is cut by these lengths and by nothing else, so that results do not depend on the number of threads.
/// Slots whose scores one task computes.
constexpr int64_t kSplitSlots = 256;
/// Slots whose weights one task adds up. Each group has weights of its own for all distinct rows, so groups are few.
constexpr int64_t kGroupSlots = 16384;
constexpr int64_t kMostGroups = 8;
/// Distinct rows that one task adds up.
constexpr int64_t kRangeRows = 256;

/// One task of bank_attention: some slots of a sequence's view, or some of its distinct rows. Its sums count times
/// e^(largest - the largest of all parts).
template <typename Compute>
struct BankPart {
  int64_t sequence, begin, count;
  Compute* largest = nullptr;  ///< [padded]
  Compute* sums = nullptr;     ///< [padded] sums of weights, or null
  Compute* out = nullptr;      ///< [rows, width] weighted sums of table rows, or null
  Compute* weights = nullptr;  ///< [distinct rows, padded], of a group or a range
  int64_t groups = 0;          ///< of a range: how many such weights follow each other
};

/// Appends equal parts of [0, count) of a sequence, copies of `part`.
template <typename Compute>
void cut_parts(int64_t count, int64_t pieces, BankPart<Compute> part, std::vector<BankPart<Compute>>& out) {
  const int64_t length = (count + pieces - 1) / pieces;
  for (part.begin = 0; part.begin < count; part.begin += length) {
    part.count = std::min(length, count - part.begin);
    out.push_back(part);
  }
}

template <typename Compute, typename Body>
void for_parts(const std::vector<BankPart<Compute>>& parts, const Body& body) {
  at::parallel_for(0, static_cast<int64_t>(parts.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      body(parts[i]);
    }
  });
}

/// Adds up a row's weighted sums, [width]; returns the sum of its weights, 0 where the sequence has no slots.
template <typename Compute>
Compute add_parts(const std::vector<const BankPart<Compute>*>& parts,
                  int64_t row,
                  int64_t width,
                  Compute* sum) {
  std::fill_n(sum, width, Compute(0));
  Compute largest = std::numeric_limits<Compute>::lowest();
  for (const BankPart<Compute>* part : parts) {
    largest = std::max(largest, part->largest[row]);
  }
  Compute total = 0;
  for (const BankPart<Compute>* part : parts) {
    const Compute factor = std::exp(part->largest[row] - largest);
    total += part->sums == nullptr ? 0 : factor * part->sums[row];
    for (int64_t d = 0; part->out != nullptr && d < width; ++d) {
      sum[d] += factor * part->out[row * width + d];
    }
  }
  return total;
}

}  // namespace bov::ops::cpu
