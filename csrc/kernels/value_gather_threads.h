#pragma once

#include "csrc/kernels/id_report.h"
#include "csrc/kernels/launch.h"
#include "csrc/kernels/value_gather_layout.h"

/// The kernels of value_gather (see launch.h). They move packs of V elements: 1, or as many as make 16 bytes where width,
/// strides and addresses allow it.
namespace bov::kernels {

/// Tables that one launch can read.
constexpr int kMaxLayers = 32;

template <int V, typename Table, typename Out>
struct GatherKernel {
  using Compute = ComputeType<Table, Out>;
  struct Layer {
    const Table* table;    ///< [rows, width]
    int64_t row_stride;    ///< elements from one table row to the next
    const Compute* scale;  ///< one number, or null for 1
    Out* out;              ///< [positions, width]
  };
  GatherGrid grid;
  int layer_count;
  Layer layers[kMaxLayers];
  const int64_t* ids;  ///< [positions]
  int64_t positions, rows, width;
  IdReport* report;
  Compute outside;  ///< what fills the row of an id outside the table

  LaunchSize size() const { return {grid.blocks, layer_count, 1, grid.threads}; }

  template <typename Thread>
  BOV_HOST_DEVICE void operator()(const Thread& thread) const {
    const Layer& layer = layers[thread.block_y()];
    const int lane = thread.index() % grid.lanes;
    const int rows_per_block = grid.threads / grid.lanes;
    const Compute scale = layer.scale == nullptr ? Compute(1) : *layer.scale;
    for (int64_t i = thread.block_x() * rows_per_block + thread.index() / grid.lanes; i < positions;
         i += grid.blocks * rows_per_block) {
      const int64_t id = ids[i];
      const bool inside = is_inside(id, rows);
      if (!inside && lane == 0) {
        report_id(report, id, rows);
      }
      for (int64_t v = lane; v < grid.vectors; v += grid.lanes) {
        Pack<Out, V> result;
        if (inside) {
          const auto values = load_pack<Table, V>(layer.table + id * layer.row_stride + v * V);
          for (int j = 0; j < V; ++j) {
            result.element[j] = element_cast<Out>(scale * element_cast<Compute>(values.element[j]));
          }
        } else {
          for (int j = 0; j < V; ++j) {
            result.element[j] = element_cast<Out>(outside);
          }
        }
        store_pack(layer.out + i * width + v * V, result);
      }
    }
  }
};

/// The backward pass. Ids outside the table are in no segment.
template <typename Grad, typename Table>
struct ScatterProblem {
  using Compute = ComputeType<Table, Grad>;
  const Grad* grad;     ///< [positions, width]
  int64_t grad_stride;  ///< elements from one row of grad to the next
  const Table* table;   ///< [rows, width]; read for scale's gradient alone
  int64_t row_stride;
  int64_t rows;
  int64_t width;
  Segments segments;
  const Compute* scale;     ///< one number, or null for 1
  Compute* heads;           ///< [chunks, width]
  Compute* tails;           ///< [chunks, width]
  Table* table_grad;        ///< [rows, width], zero where no id points; or null
  Compute* scale_partials;  ///< [2, chunks, vectors], to be added up; or null
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
        rows[i] = load_pack<Grad, V>(p.grad + p.segments.position(k + i) * p.grad_stride + column);
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
BOV_HOST_DEVICE void sum_chunk(const ScatterProblem<Grad, Table>& p,
                               const ChunkGrid& grid,
                               int64_t chunk,
                               int64_t vector) {
  using Compute = ComputeType<Table, Grad>;
  const int64_t column = vector * V;
  const Chunk places = chunk_at(p.segments, chunk, grid.chunk);
  Compute share = 0;
  int64_t segment = places.first_segment;
  const int64_t segments = p.segments.size();
  for (int64_t k = places.begin; k < places.end && segment < segments; ++segment) {
    const SegmentPiece piece = segment_piece(p.segments, places, segment);
    k = piece.end;
    if (!is_inside(piece.row, p.rows)) {
      continue;
    }
    const Pack<Compute, V> sum = sum_rows<V>(p, piece.begin, piece.end, column);
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
BOV_HOST_DEVICE void combine_chunk(const ScatterProblem<Grad, Table>& p,
                                   const ChunkGrid& grid,
                                   int64_t chunk,
                                   int64_t vector) {
  using Compute = ComputeType<Table, Grad>;
  const int64_t column = vector * V;
  const int64_t segment = crossing_segment(p.segments, chunk, grid.chunk);
  Compute share = 0;
  if (segment >= 0 && is_inside(p.segments.distinct[segment], p.rows)) {
    auto sum = load_pack<Compute, V>(p.tails + chunk * p.width + column);
    const int64_t last = ceil_div(p.segments.begin(segment + 1), grid.chunk);
    for (int64_t later = chunk + 1; later < last; ++later) {
      const auto head = load_pack<Compute, V>(p.heads + later * p.width + column);
      for (int j = 0; j < V; ++j) {
        sum.element[j] += head.element[j];
      }
    }
    share = finish_pack<V>(p, p.segments.distinct[segment], column, sum);
  }
  if (p.scale_partials != nullptr) {
    p.scale_partials[(grid.chunks + chunk) * grid.vectors + vector] = share;
  }
}

/// The two steps of the backward pass: sums of chunks, then of what crosses their borders.
enum class ScatterStep { sum, combine };

template <ScatterStep Step, int V, typename Grad, typename Table>
struct ScatterKernel {
  ScatterProblem<Grad, Table> problem;
  ChunkGrid grid;

  LaunchSize size() const { return {grid.chunks, grid.tiles, 1, grid.threads}; }

  template <typename Thread>
  BOV_HOST_DEVICE void operator()(const Thread& thread) const {
    const int64_t vector = thread.block_y() * grid.threads + thread.index();
    if (vector >= grid.vectors) {
      return;
    }
    if constexpr (Step == ScatterStep::sum) {
      sum_chunk<V>(problem, grid, thread.block_x(), vector);
    } else {
      combine_chunk<V>(problem, grid, thread.block_x(), vector);
    }
  }
};

}  // namespace bov::kernels
