#pragma once

#include <cmath>

#include "csrc/kernels/bank_attention_layout.h"
#include "csrc/kernels/id_report.h"

/// Weighted sums of table rows in bank_attention: what one thread of each kernel does. Both algorithms share the
/// kernels; they differ in the list of (row, weights) that a block adds up, a policy.
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

template <typename Table, typename Compute>
struct RowProblem {
  const Table* table;
  int64_t row_stride;
  const float* row_scale;  ///< [table_rows] or null
  Compute* sums;           ///< [batch, most lists, rows] out: sums of weights
  Compute* partials;       ///< [batch, most lists, rows, width] out
  int64_t most_lists;
  IdReport* report;
  Compute outside;  ///< what a row outside the table consists of
};

/// One block: a list (x), a tile of columns (y) and a sequence (z); one thread a pack of columns.
template <int V, typename Entries, typename Table, typename Compute, typename Thread>
BOV_HOST_DEVICE void row_thread(const Thread& thread,
                                const Entries& entries,
                                const RowProblem<Table, Compute>& p) {
  constexpr int kInFlight = 4;  // rows that are loaded before the first is used
  constexpr int kQueries = 4;   // queries of a group that share a load
  const BankShape& shape = entries.shape;
  const int64_t b = thread.block_z();
  const int64_t index = thread.block_x();
  if (index >= entries.lists(b)) {
    return;
  }
  const auto list = entries.open(thread, b, index);
  const int64_t column = (thread.block_y() * thread.count() + thread.index()) * V;
  if (column >= shape.key_heads * shape.width) {
    return;
  }
  const int64_t first_row = column / shape.width * shape.group();
  const int64_t place = (b * p.most_lists + index) * shape.rows() + first_row;
  for (int64_t q0 = 0; q0 < shape.group(); q0 += kQueries) {
    Compute sums[kQueries] = {};
    Pack<Compute, V> out[kQueries] = {};
    for (int64_t k0 = 0; k0 < list.count; k0 += kInFlight) {
      Pack<Table, V> rows[kInFlight];
      Compute scale[kInFlight];
      bool inside[kInFlight];
      for (int i = 0; i < kInFlight && k0 + i < list.count; ++i) {
        const int64_t id = entries.id(list, k0 + i);
        inside[i] = is_inside(id, shape.table_rows);
        if (inside[i]) {
          rows[i] = load_pack<Table, V>(p.table + id * p.row_stride + column);
          scale[i] = p.row_scale == nullptr ? Compute(1) : static_cast<Compute>(p.row_scale[id]);
        } else if (column == 0) {
          report_id(p.report, id, shape.table_rows);
        }
      }
      for (int i = 0; i < kInFlight && k0 + i < list.count; ++i) {
        for (int q = 0; q < kQueries && q0 + q < shape.group(); ++q) {
          const Compute weight = entries.weight(list, k0 + i, first_row + q0 + q);
          sums[q] += weight;
          for (int j = 0; j < V; ++j) {
            const Compute value =
                inside[i] ? scale[i] * element_cast<Compute>(rows[i].element[j]) : p.outside;
            out[q].element[j] += weight * value;
          }
        }
      }
    }
    for (int q = 0; q < kQueries && q0 + q < shape.group(); ++q) {
      store_pack(p.partials + (place + q0 + q) * shape.width + column % shape.width, out[q]);
      if (column % shape.width == 0) {
        p.sums[place + q0 + q] = sums[q];
      }
    }
  }
}

template <typename Out, typename Compute>
struct CombineProblem {
  const Compute* sums;      ///< [batch, most lists, rows]
  const Compute* partials;  ///< [batch, most lists, rows, width]
  int64_t most_lists;
  const Compute* scale;  ///< one number, or null for 1
  Out* out;              ///< [batch, queries, heads, width]
  Compute lowest, invalid;
};

/// Columns that one block of the combining kernel finishes; its warps share the lists, each column is one lane's.
constexpr int kCombineColumns = 32;

/// One block: a row (x), kCombineColumns columns (y) and a sequence (z). `shared` holds two numbers for each thread.
template <typename Entries, typename Out, typename Compute, typename Thread>
BOV_HOST_DEVICE void combine_thread(const Thread& thread,
                                    const Entries& entries,
                                    const CombineProblem<Out, Compute>& p) {
  const BankShape& shape = entries.shape;
  const int64_t row = thread.block_x();
  const int64_t b = thread.block_z();
  const int64_t lists = entries.lists(b);
  const int64_t column = thread.block_y() * kCombineColumns + thread.index() % kCombineColumns;
  const int team = thread.index() / kCombineColumns;
  const int teams = thread.count() / kCombineColumns;
  auto* shared = static_cast<Compute*>(thread.shared());
  Compute largest = p.lowest;
  for (int64_t list = team; list < lists; list += teams) {
    const Compute offset = entries.offset(b, list, row);
    largest = offset > largest ? offset : largest;
  }
  shared[thread.index()] = largest;
  thread.sync();
  for (int other = 0; other < teams; ++other) {
    const Compute offset = shared[other * kCombineColumns];
    largest = offset > largest ? offset : largest;
  }
  thread.sync();
  Compute total = 0;
  Compute sum = 0;
  for (int64_t list = team; list < lists; list += teams) {
    const int64_t place = (b * p.most_lists + list) * shape.rows() + row;
    const Compute factor = exponential(entries.offset(b, list, row) - largest);
    total += factor * p.sums[place];
    if (column < shape.width) {
      sum += factor * p.partials[place * shape.width + column];
    }
  }
  shared[2 * thread.index()] = total;
  shared[2 * thread.index() + 1] = sum;
  thread.sync();
  if (team == 0 && column < shape.width) {
    for (int other = 1; other < teams; ++other) {
      total += shared[2 * (thread.index() + other * kCombineColumns)];
      sum += shared[2 * (thread.index() + other * kCombineColumns) + 1];
    }
    const BankView view = bank_view(shape, entries.lengths[b]);
    const Compute scale = p.scale == nullptr ? Compute(1) : *p.scale;
    const Compute result = !view.valid ? p.invalid : view.count == 0 ? Compute(0) : sum * scale / total;
    p.out[shape.offset(b, row) + column] = element_cast<Out>(result);
  }
}

}  // namespace bov::kernels
