#pragma once

#include "csrc/kernels/bank_attention_entries.h"

/// Weighted sums of table rows in bank_attention, list by list, and their combination (kernels, see launch.h).
namespace bov::kernels {

/// One block: a list (x), a tile of columns (y) and a sequence (z); one thread a pack of columns.
template <int V, typename Entries, typename Table, typename Compute>
struct BankRowKernel {
  static constexpr int kThreads = 128;
  Entries entries;
  const Table* table;
  int64_t row_stride;
  const float* row_scale;  ///< [table_rows] or null
  Compute* sums;           ///< [batch, splits, rows] out: sums of weights
  Compute* partials;       ///< [batch, splits, rows, width] out
  IdReport* report;
  Compute outside;  ///< what a row outside the table consists of

  LaunchSize size() const {
    const BankShape& shape = entries.shape;
    return {shape.splits(), ceil_div(shape.key_heads * shape.width / V, kThreads), shape.batch, kThreads};
  }

  template <typename Thread>
  BOV_HOST_DEVICE void operator()(const Thread& thread) const {
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
    const int64_t place = (b * shape.splits() + index) * shape.rows() + first_row;
    for (int64_t q0 = 0; q0 < shape.group(); q0 += kQueries) {
      Compute weight_sums[kQueries] = {};
      Pack<Compute, V> out[kQueries] = {};
      for (int64_t k0 = 0; k0 < list.count; k0 += kInFlight) {
        Pack<Table, V> rows[kInFlight];
        Compute scale[kInFlight];
        bool inside[kInFlight];
        for (int i = 0; i < kInFlight && k0 + i < list.count; ++i) {
          const int64_t id = entries.id(list, k0 + i);
          inside[i] = is_inside(id, shape.table_rows);
          if (inside[i]) {
            rows[i] = load_pack<Table, V>(table + id * row_stride + column);
            scale[i] = row_scale == nullptr ? Compute(1) : static_cast<Compute>(row_scale[id]);
          } else if (column == 0) {
            report_id(report, id, shape.table_rows);
          }
        }
        for (int i = 0; i < kInFlight && k0 + i < list.count; ++i) {
          for (int q = 0; q < kQueries && q0 + q < shape.group(); ++q) {
            const Compute weight = entries.weight(list, k0 + i, first_row + q0 + q);
            weight_sums[q] += weight;
            for (int j = 0; j < V; ++j) {
              const Compute value =
                  inside[i] ? scale[i] * element_cast<Compute>(rows[i].element[j]) : outside;
              out[q].element[j] += weight * value;
            }
          }
        }
      }
      for (int q = 0; q < kQueries && q0 + q < shape.group(); ++q) {
        store_pack(partials + (place + q0 + q) * shape.width + column % shape.width, out[q]);
        if (column % shape.width == 0) {
          sums[place + q0 + q] = weight_sums[q];
        }
      }
    }
  }
};

/// One block: a row (x), kColumns columns (y) and a sequence (z). A block's warps share the lists, each column is one
/// lane's.
template <typename Entries, typename Out, typename Compute>
struct BankCombineKernel {
  static constexpr int kColumns = 32;
  static constexpr int kThreads = 8 * kColumns;
  Entries entries;
  const Compute* sums;      ///< [batch, splits, rows]
  const Compute* partials;  ///< [batch, splits, rows, width]
  const Compute* scale;     ///< one number, or null for 1
  Out* out;                 ///< [batch, queries, heads, width]
  Compute lowest, invalid;

  /// Shared memory holds two numbers for each thread.
  LaunchSize size() const {
    const BankShape& shape = entries.shape;
    return {shape.rows(), ceil_div(shape.width, kColumns), shape.batch, kThreads,
            2 * kThreads * sizeof(Compute)};
  }

  template <typename Thread>
  BOV_HOST_DEVICE void operator()(const Thread& thread) const {
    const BankShape& shape = entries.shape;
    const int64_t row = thread.block_x();
    const int64_t b = thread.block_z();
    const int64_t lists = entries.lists(b);
    const int64_t column = thread.block_y() * kColumns + thread.index() % kColumns;
    const int team = thread.index() / kColumns;
    const int teams = thread.count() / kColumns;
    auto* shared = static_cast<Compute*>(thread.shared());
    Compute largest = lowest;
    for (int64_t list = team; list < lists; list += teams) {
      const Compute offset = entries.offset(b, list, row);
      largest = offset > largest ? offset : largest;
    }
    shared[thread.index()] = largest;
    thread.sync();
    for (int other = 0; other < teams; ++other) {
      const Compute offset = shared[other * kColumns];
      largest = offset > largest ? offset : largest;
    }
    thread.sync();
    Compute total = 0;
    Compute sum = 0;
    for (int64_t list = team; list < lists; list += teams) {
      const int64_t place = (b * shape.splits() + list) * shape.rows() + row;
      const Compute factor = exponential(entries.offset(b, list, row) - largest);
      total += factor * sums[place];
      if (column < shape.width) {
        sum += factor * partials[place * shape.width + column];
      }
    }
    shared[2 * thread.index()] = total;
    shared[2 * thread.index() + 1] = sum;
    thread.sync();
    if (team == 0 && column < shape.width) {
      for (int other = 1; other < teams; ++other) {
        total += shared[2 * (thread.index() + other * kColumns)];
        sum += shared[2 * (thread.index() + other * kColumns) + 1];
      }
      const BankView view = bank_view(shape, entries.lengths[b]);
      const Compute factor = scale == nullptr ? Compute(1) : *scale;
      const Compute result = !view.valid ? invalid : view.count == 0 ? Compute(0) : sum * factor / total;
      out[shape.offset(b, row) + column] = element_cast<Out>(result);
    }
  }
};

}  // namespace bov::kernels
