#pragma once

#include <cmath>

#include "csrc/kernels/bank_attention_layout.h"
#include "csrc/kernels/id_report.h"
#include "csrc/kernels/launch.h"

/// What the kernels of bank_attention add up: lists of table rows with weights. The two algorithms share the kernels and
/// differ in these lists, a policy.
namespace bov::kernels {

BOV_HOST_DEVICE float exponential(float x) {
  return expf(x);
}
BOV_HOST_DEVICE double exponential(double x) {
  return exp(x);
}

/// Token ids of a batch, of any integer type.
struct BankIds {
  const void* data;
  int bytes;       ///< of one id: 1 and 2 (see is_signed), 4 or 8
  bool is_signed;  ///< two-byte ids
  int64_t batch_stride, slot_stride;

  BOV_HOST_DEVICE int64_t at(int64_t b, int64_t slot) const {
    const int64_t i = b * batch_stride + slot * slot_stride;
    switch (bytes) {
      case 1:
        return static_cast<const uint8_t*>(data)[i];
      case 2:
        return is_signed ? static_cast<const int16_t*>(data)[i] : static_cast<const uint16_t*>(data)[i];
      case 4:
        return static_cast<const int32_t*>(data)[i];
      default:
        return static_cast<const int64_t*>(data)[i];
    }
  }
};

/// The indirect algorithm: a list is a split, one entry for each slot. Weights count relative to the split's
/// largest score.
template <typename Compute>
struct SlotEntries {
  BankShape shape;
  const int64_t* lengths;
  BankIds ids;
  const Compute* scores;   ///< [batch, capacity, rows]
  const Compute* largest;  ///< [batch, splits, rows]

  struct List {
    int64_t count;
    int64_t first_slot;  ///< in the cache
    int64_t b;
    const Compute* scores;   ///< of the list's first slot
    const Compute* largest;  ///< [rows]
  };

  BOV_HOST_DEVICE int64_t lists(int64_t b) const {
    return ceil_div(bank_view(shape, lengths[b]).count, shape.split());
  }

  template <typename Thread>
  BOV_HOST_DEVICE List open(const Thread&, int64_t b, int64_t split) const {
    const BankView view = bank_view(shape, lengths[b]);
    const int64_t begin = split * shape.split();
    const int64_t left_over = view.count - begin;
    return {left_over < shape.split() ? left_over : shape.split(), view.first + begin, b,
            scores + (b * shape.capacity() + begin) * shape.rows(),
            largest + (b * shape.splits() + split) * shape.rows()};
  }
  BOV_HOST_DEVICE int64_t id(const List& list, int64_t k) const {
    return ids.at(list.b, list.first_slot + k);
  }
  BOV_HOST_DEVICE Compute weight(const List& list, int64_t k, int64_t row) const {
    return exponential(list.scores[k * shape.rows() + row] - list.largest[row]);
  }
  /// The score relative to which the weights of a list count.
  BOV_HOST_DEVICE Compute offset(int64_t b, int64_t split, int64_t row) const {
    return largest[(b * shape.splits() + split) * shape.rows() + row];
  }
};

/// The aggregated algorithm: the slots of a sequence are sorted by id and cut into chunks of one length, whatever the
/// ids are. A list is a chunk, with one entry for each distinct id in it. An id that crosses a border is read once
/// in each chunk. Weights count relative to the sequence's largest score.
template <typename Compute>
struct PieceEntries {
  BankShape shape;
  const int64_t* lengths;
  BankIds ids;
  const int32_t* order;     ///< sorted positions: b * capacity + slot of the view
  const int32_t* offsets;   ///< [segments + 1] where in `order` each segment begins
  const int32_t* distinct;  ///< [segments] b * (table_rows + 1) + id; table_rows for an id outside the table
  const int32_t* segment_of_sequence;  ///< [batch + 1] first segment of each sequence
  const Compute* scores;               ///< [batch, capacity, rows]
  const Compute* largest;              ///< [batch, rows]
  Compute* slot_weights;               ///< [batch * capacity, rows] scratch, in sorted order
  Compute* piece_weights;              ///< [batch * capacity, rows] scratch

  struct List {
    int64_t count;
    int64_t segment;  ///< of the first piece
    int64_t b;
    const Compute* weights;  ///< [count, rows]
  };

  BOV_HOST_DEVICE int64_t begin(int64_t b) const { return offsets[segment_of_sequence[b]]; }
  BOV_HOST_DEVICE int64_t lists(int64_t b) const { return ceil_div(begin(b + 1) - begin(b), shape.split()); }

  /// Last segment of [low, high) that begins at or before sorted position `k`.
  BOV_HOST_DEVICE int64_t segment_at(int64_t k, int64_t low, int64_t high) const {
    while (high - low > 1) {
      const int64_t middle = low + (high - low) / 2;
      (offsets[middle] <= k ? low : high) = middle;
    }
    return low;
  }

  template <typename Thread>
  BOV_HOST_DEVICE List open(const Thread& thread, int64_t b, int64_t chunk) const {
    const int64_t rows = shape.rows();
    const int64_t first = begin(b) + chunk * shape.split();
    const int64_t last = first + shape.split() < begin(b + 1) ? first + shape.split() : begin(b + 1);
    const int64_t segment = segment_at(first, segment_of_sequence[b], segment_of_sequence[b + 1]);
    const int64_t pieces = segment_at(last - 1, segment, segment_of_sequence[b + 1]) - segment + 1;
    // The blocks of other column tiles write the same numbers to the same places.
    for (int64_t i = thread.index(); i < (last - first) * rows; i += thread.count()) {
      const int64_t row = i % rows;
      slot_weights[first * rows + i] =
          exponential(scores[order[first + i / rows] * rows + row] - largest[b * rows + row]);
    }
    thread.sync();
    for (int64_t i = thread.index(); i < pieces * rows; i += thread.count()) {
      const int64_t piece = segment + i / rows;
      const int64_t piece_begin = offsets[piece] > first ? offsets[piece] : first;
      const int64_t piece_end = offsets[piece + 1] < last ? offsets[piece + 1] : last;
      Compute sum = 0;
      for (int64_t k = piece_begin; k < piece_end; ++k) {
        sum += slot_weights[k * rows + i % rows];
      }
      piece_weights[first * rows + i] = sum;
    }
    thread.sync();
    return {pieces, segment, b, piece_weights + first * rows};
  }
  BOV_HOST_DEVICE int64_t id(const List& list, int64_t k) const {
    const int64_t id = distinct[list.segment + k] - list.b * (shape.table_rows + 1);
    if (id < shape.table_rows) {
      return id;
    }
    const int64_t position = order[offsets[list.segment + k]];
    return ids.at(list.b, bank_view(shape, lengths[list.b]).first + position % shape.capacity());
  }
  BOV_HOST_DEVICE Compute weight(const List& list, int64_t k, int64_t row) const {
    return list.weights[k * shape.rows() + row];
  }
  BOV_HOST_DEVICE Compute offset(int64_t b, int64_t, int64_t row) const {
    return largest[b * shape.rows() + row];
  }
};

/// The sort key of a slot of a view: a sequence's ids and one more for what lies outside the table; after all of
/// them one for what lies outside the view.
BOV_HOST_DEVICE int64_t piece_key(const BankShape& shape,
                                  const BankIds& ids,
                                  const int64_t* lengths,
                                  int64_t position) {
  const int64_t b = position / shape.capacity();
  const BankView view = bank_view(shape, lengths[b]);
  const int64_t slot = position % shape.capacity();
  if (slot >= view.count) {
    return shape.batch * (shape.table_rows + 1);
  }
  const int64_t id = ids.at(b, view.first + slot);
  return b * (shape.table_rows + 1) + (is_inside(id, shape.table_rows) ? id : shape.table_rows);
}

/// First of `segments` ascending keys that belongs to sequence `b` or a later one.
BOV_HOST_DEVICE int32_t first_segment_of(const int32_t* distinct, int32_t segments, int64_t rows, int64_t b) {
  int32_t low = 0;
  int32_t high = segments;
  while (low < high) {
    const int32_t middle = low + (high - low) / 2;
    if (distinct[middle] < b * (rows + 1)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

struct BankKeyKernel {
  BankShape shape;
  BankIds ids;
  const int64_t* lengths;
  int64_t* keys;  ///< [batch * capacity] out

  LaunchSize size() const { return list_size(shape.batch * shape.capacity()); }

  template <typename Thread>
  BOV_HOST_DEVICE void operator()(const Thread& thread) const {
    const int64_t i = list_entry(thread);
    if (i < shape.batch * shape.capacity()) {
      keys[i] = piece_key(shape, ids, lengths, i);
    }
  }
};

struct BankSegmentKernel {
  int64_t batch, table_rows;
  const int32_t* distinct;
  const int32_t* count;
  int32_t* segment_of_sequence;  ///< [batch + 1] out

  LaunchSize size() const { return list_size(batch + 1); }

  template <typename Thread>
  BOV_HOST_DEVICE void operator()(const Thread& thread) const {
    const int64_t b = list_entry(thread);
    if (b <= batch) {
      segment_of_sequence[b] = first_segment_of(distinct, *count, table_rows, b);
    }
  }
};

}  // namespace bov::kernels
