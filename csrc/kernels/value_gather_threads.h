#pragma once

#include "csrc/kernels/value_gather_layout.h"

/// What one thread of each value_gather kernel does. The functions know no CUDA, so that tests walk the same
/// code over blocks and threads on the host. `Pack` width V: 1, or as many elements as make 16 bytes where
/// width, strides and addresses allow it.
namespace bov::kernels {

/// Where a kernel leaves an id that it found outside the table: memory that the host reads without waiting.
/// The words are written by racing threads, and any of their ids will do.
struct IdReport {
  int64_t id;
  int64_t rows;
  int64_t found;  ///< 0, or 1 once the others are written
};

template <typename Table, typename Out>
struct GatherProblem {
  using Compute = ComputeType<Table, Out>;
  const Table* table;  ///< [rows, width]
  int64_t rows;
  int64_t row_stride;  ///< elements from one table row to the next
  const int64_t* ids;  ///< [positions]
  int64_t positions;
  const Compute* scale;  ///< one number, or null for 1
  Out* out;              ///< [positions, width]
  int64_t width;
  IdReport* report;
  Compute outside;  ///< what fills the row of an id outside the table
};

template <int V, typename Table, typename Out>
BOV_HOST_DEVICE void gather_thread(const GatherProblem<Table, Out>& p,
                                   const GatherGrid& grid,
                                   int64_t block,
                                   int thread) {
  using Compute = typename GatherProblem<Table, Out>::Compute;
  const int lane = thread % grid.lanes;
  const int rows_per_block = grid.threads / grid.lanes;
  const Compute scale = p.scale == nullptr ? Compute(1) : *p.scale;
  for (int64_t i = block * rows_per_block + thread / grid.lanes; i < p.positions;
       i += grid.blocks * rows_per_block) {
    const int64_t id = p.ids[i];
    const bool inside = id >= 0 && id < p.rows;
    if (!inside && lane == 0) {
      p.report->id = id;
      p.report->rows = p.rows;
#ifdef __CUDA_ARCH__
      __threadfence_system();  // the host must not see `found` before the rest
#endif
      p.report->found = 1;
    }
    for (int64_t v = lane; v < grid.vectors; v += grid.lanes) {
      Pack<Out, V> result;
      if (inside) {
        const auto values = load_pack<Table, V>(p.table + id * p.row_stride + v * V);
        for (int j = 0; j < V; ++j) {
          result.element[j] = element_cast<Out>(scale * element_cast<Compute>(values.element[j]));
        }
      } else {
        for (int j = 0; j < V; ++j) {
          result.element[j] = element_cast<Out>(p.outside);
        }
      }
      store_pack(p.out + i * p.width + v * V, result);
    }
  }
}

/// The backward pass. Ids outside the table carry the sort key `rows`, so they come last and are left out.
template <typename Grad, typename Table>
struct ScatterProblem {
  using Compute = ComputeType<Table, Grad>;
  const Grad* grad;     ///< [positions, width]
  int64_t grad_stride;  ///< elements from one row of grad to the next
  const Table* table;   ///< [rows, width]; read for scale's gradient alone
  int64_t row_stride;
  int64_t rows;
  int64_t width;
  int64_t positions;
  const int32_t* sorted_ids;  ///< [positions] ascending, in [0, rows]
  const int32_t* order;       ///< [positions] row of grad at each sorted position
  const int32_t* row_begin;   ///< [rows + 1]
  const Compute* scale;       ///< one number, or null for 1
  Compute* heads;             ///< [chunks, width]
  Compute* tails;             ///< [chunks, width]
  Table* table_grad;          ///< [rows, width], zero where no id points; or null
  Compute* scale_partials;    ///< [2, chunks, vectors], to be added up; or null
};

/// Writes one finished pack of the table's gradient and returns its share of the scale's.
template <int V, typename Grad, typename Table>
BOV_HOST_DEVICE auto finish_pack(const ScatterProblem<Grad, Table>& p,
                                 int64_t row,
                                 int64_t column,
                                 const Pack<ComputeType<Table, Grad>, V>& sum) {
  using Compute = ComputeType<Table, Grad>;
  Compute share = 0;
  if (p.scale_partials != nullptr) {
    const auto values = load_pack<Table, V>(p.table + row * p.row_stride + column);
    for (int j = 0; j < V; ++j) {
      share += sum.element[j] * element_cast<Compute>(values.element[j]);
    }
  }
  if (p.table_grad != nullptr) {
    const Compute scale = p.scale == nullptr ? Compute(1) : *p.scale;
    Pack<Table, V> result;
    for (int j = 0; j < V; ++j) {
      result.element[j] = element_cast<Table>(scale * sum.element[j]);
    }
    store_pack(p.table_grad + row * p.width + column, result);
  }
  return share;
}

/// Sums the rows of grad at sorted positions [begin, end), in order, over one pack of columns.
template <int V, typename Grad, typename Table>
BOV_HOST_DEVICE auto sum_rows(const ScatterProblem<Grad, Table>& p,
                              int64_t begin,
                              int64_t end,
                              int64_t column) {
  using Compute = ComputeType<Table, Grad>;
  constexpr int kInFlight = 4;  // loads that are issued before the first is used
  Pack<Compute, V> sum{};
  for (int64_t k = begin; k < end; k += kInFlight) {
    Pack<Grad, V> rows[kInFlight];
    for (int i = 0; i < kInFlight; ++i) {
      if (k + i < end) {
        rows[i] = load_pack<Grad, V>(p.grad + p.order[k + i] * p.grad_stride + column);
      }
    }
    for (int i = 0; i < kInFlight; ++i) {
      if (k + i < end) {
        for (int j = 0; j < V; ++j) {
          sum.element[j] += element_cast<Compute>(rows[i].element[j]);
        }
      }
    }
  }
  return sum;
}

/// Sums the segment pieces of one chunk over one pack of columns.
template <int V, typename Grad, typename Table>
BOV_HOST_DEVICE void chunk_thread(const ScatterProblem<Grad, Table>& p,
                                  const ChunkGrid& grid,
                                  int64_t chunk,
                                  int64_t vector) {
  using Compute = ComputeType<Table, Grad>;
  const int64_t column = vector * V;
  const int64_t begin = chunk * grid.chunk;
  const int64_t end = begin + grid.chunk < p.positions ? begin + grid.chunk : p.positions;
  Compute share = 0;
  for (int64_t k = begin; k < end && p.sorted_ids[k] < p.rows;) {
    const SegmentPiece piece = segment_piece(p.sorted_ids, p.row_begin, k, begin, end);
    const Pack<Compute, V> sum = sum_rows<V>(p, piece.begin, piece.end, column);
    k = piece.end;
    if (piece.starts_before || piece.continues) {
      store_pack((piece.starts_before ? p.heads : p.tails) + chunk * p.width + column, sum);
    } else {
      share += finish_pack<V>(p, piece.row, column, sum);
    }
  }
  if (p.scale_partials != nullptr) {
    p.scale_partials[chunk * grid.vectors + vector] = share;
  }
}

/// Adds up the segment that begins in this chunk and crosses its end, if there is one, over one pack of
/// columns.
template <int V, typename Grad, typename Table>
BOV_HOST_DEVICE void combine_thread(const ScatterProblem<Grad, Table>& p,
                                    const ChunkGrid& grid,
                                    int64_t chunk,
                                    int64_t vector) {
  using Compute = ComputeType<Table, Grad>;
  const int64_t column = vector * V;
  const int64_t begin = chunk * grid.chunk;
  const int64_t end = begin + grid.chunk < p.positions ? begin + grid.chunk : p.positions;
  const int64_t row = p.sorted_ids[end - 1];
  Compute share = 0;
  if (row < p.rows && p.row_begin[row] >= begin && p.row_begin[row + 1] > end) {
    auto sum = load_pack<Compute, V>(p.tails + chunk * p.width + column);
    const int64_t last = ceil_div(p.row_begin[row + 1], grid.chunk);
    for (int64_t later = chunk + 1; later < last; ++later) {
      const auto head = load_pack<Compute, V>(p.heads + later * p.width + column);
      for (int j = 0; j < V; ++j) {
        sum.element[j] += head.element[j];
      }
    }
    share = finish_pack<V>(p, row, column, sum);
  }
  if (p.scale_partials != nullptr) {
    p.scale_partials[(grid.chunks + chunk) * grid.vectors + vector] = share;
  }
}

}  // namespace bov::kernels
