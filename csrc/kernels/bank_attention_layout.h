#pragma once

#include "csrc/kernels/host_device.h"

/// How the kernels of bank_attention divide their work, as plain arithmetic for GPU and tests.
///
/// The queries of a sequence that attend with one key head form a group; a sequence has rows = key_heads * group
/// scores for each slot. Slots are counted from the first one in view. They are cut into splits of one length, which
/// depends on nothing but the capacity of a view, so results do not depend on what else the device does.
namespace bov::kernels {

struct BankShape {
  int64_t batch, queries, heads, key_heads, width;
  int64_t slots;  ///< of the cache, for each sequence
  int64_t left;
  int64_t table_rows;

  BOV_HOST_DEVICE int64_t sharing() const { return heads / key_heads; }
  BOV_HOST_DEVICE int64_t group() const { return sharing() * queries; }
  BOV_HOST_DEVICE int64_t rows() const { return heads * queries; }
  /// Most slots that a sequence can have in view.
  BOV_HOST_DEVICE int64_t capacity() const { return left < slots - queries ? left + queries : slots; }
  BOV_HOST_DEVICE int64_t split() const {
    int64_t length = 128;
    while (length * 512 < capacity()) {
      length *= 2;
    }
    return length;
  }
  BOV_HOST_DEVICE int64_t splits() const { return ceil_div(capacity(), split()); }

  /// Where q and the result have row `row` of sequence `b`, in [batch, queries, heads, width].
  BOV_HOST_DEVICE int64_t offset(int64_t b, int64_t row) const {
    const int64_t member = row % group();
    const int64_t head = row / group() * sharing() + member % sharing();
    return ((b * queries + member / sharing()) * heads + head) * width;
  }
};

/// The slots that a sequence has in view.
struct BankView {
  int64_t first, count;
  bool valid;  ///< the length is in its range
};

BOV_HOST_DEVICE BankView bank_view(const BankShape& shape, int64_t length) {
  if (length == 0 || length < shape.queries || length > shape.slots) {
    return {0, 0, length == 0};
  }
  const int64_t earlier = length - shape.queries;
  const int64_t first = earlier - (shape.left < earlier ? shape.left : earlier);
  return {first, length - first, true};
}

/// Whether the query of `row` sees a slot of a view.
BOV_HOST_DEVICE bool sees(const BankShape& shape, const BankView& view, int64_t row, int64_t slot) {
  const int64_t last = view.count - shape.queries + row % shape.group() / shape.sharing();
  return slot <= last && last - slot <= shape.left;
}

/// Neighbouring threads that multiply one key vector of `packs` packs: a power of two, at most a warp.
BOV_HOST_DEVICE int key_lanes(int64_t packs) {
  int lanes = 1;
  while (lanes < 32 && lanes < packs) {
    lanes *= 2;
  }
  return lanes;
}

}  // namespace bov::kernels
