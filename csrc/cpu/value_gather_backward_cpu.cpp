#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/library.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "csrc/cpu/checked_ids.h"
#include "csrc/cpu/dispatch_value_type.h"
#include "csrc/cpu/row_math.h"
#include "csrc/kernels/value_gather_layout.h"
#include "csrc/value_gather_contract.h"

namespace bov::ops {
namespace {

/// Rows that are summed together, so that the sum is read and written once for all of them.
constexpr int64_t kBlockRows = 4;

/// The sums over segments of csrc/kernels/value_gather_layout.h, a whole row at a time.
template <typename Grad, typename Table>
struct ScatterRows {
  using Compute = kernels::ComputeType<Table, Grad>;
  struct Problem {
    const Grad* grad;
    int64_t grad_stride;
    const Table* table;
    int64_t row_stride, width, positions, chunk, chunks;
    kernels::Segments segments;
    Compute scale;
    Compute* heads;          ///< [chunks, width]
    Compute* tails;          ///< [chunks, width]
    Table* table_grad;       ///< [rows, width] or null
    double* scale_partials;  ///< [2, chunks] or null

    const Grad* grad_row(int64_t place) const { return grad + segments.positions[place] * grad_stride; }
  };

  /// Finishes one table row and returns its share of the scale's gradient.
  BOV_ALWAYS_INLINE static double finish(const Problem& p, int64_t row, const Compute* sum) {
    if (p.table_grad != nullptr) {
      cpu::scale_row(sum, p.scale, p.table_grad + row * p.width, p.width);
    }
    return p.scale_partials == nullptr ? 0.0 : cpu::dot_row(sum, p.table + row * p.row_stride, p.width);
  }

  template <int Count, bool Start>
  BOV_ALWAYS_INLINE static void add_block(const Problem& p, int64_t k, Compute* sum) {
    const Grad* rows[Count];
    const Grad* next[Count];
    for (int i = 0; i < Count; ++i) {
      rows[i] = p.grad_row(k + i);
      next[i] = p.grad_row(std::min(k + i + kBlockRows, p.positions - 1));
    }
    cpu::add_rows<Count, Start>(rows, next, sum, p.width);
  }

  template <bool Start>
  BOV_ALWAYS_INLINE static void add_block(const Problem& p, int64_t k, int64_t count, Compute* sum) {
    switch (count) {
      case 1:
        return add_block<1, Start>(p, k, sum);
      case 2:
        return add_block<2, Start>(p, k, sum);
      case 3:
        return add_block<3, Start>(p, k, sum);
      default:
        return add_block<kBlockRows, Start>(p, k, sum);
    }
  }

  /// sum = the rows of grad at sorted places [begin, end), added in order.
  BOV_ALWAYS_INLINE static void sum_piece(const Problem& p, int64_t begin, int64_t end, Compute* sum) {
    add_block<true>(p, begin, std::min(kBlockRows, end - begin), sum);
    for (int64_t k = begin + kBlockRows; k < end; k += kBlockRows) {
      add_block<false>(p, k, std::min(kBlockRows, end - k), sum);
    }
  }

  /// Finishes the segments that lie inside the chunks, and leaves partial sums of the others.
  BOV_ALWAYS_INLINE static void sum_chunks(const Problem& p,
                                           int64_t first_chunk,
                                           int64_t last_chunk,
                                           Compute* sum) {
    for (int64_t c = first_chunk; c < last_chunk; ++c) {
      const kernels::Chunk chunk = kernels::chunk_at(p.segments, c, p.chunk);
      double share = 0.0;
      int64_t segment = chunk.first_segment;
      for (int64_t k = chunk.begin; k < chunk.end; ++segment) {
        const auto piece = kernels::segment_piece(p.segments, chunk, segment);
        const bool whole = !piece.starts_before && !piece.continues;
        Compute* target = whole ? sum : (piece.starts_before ? p.heads : p.tails) + c * p.width;
        sum_piece(p, k, piece.end, target);
        if (whole) {
          share += finish(p, piece.row, sum);
        }
        k = piece.end;
      }
      if (p.scale_partials != nullptr) {
        p.scale_partials[c] = share;
      }
    }
  }

  /// Adds up and finishes the segments that begin in these chunks and go on in the next.
  BOV_ALWAYS_INLINE static void combine_chunks(const Problem& p, int64_t first_chunk, int64_t last_chunk) {
    for (int64_t c = first_chunk; c < last_chunk; ++c) {
      const int64_t segment = kernels::crossing_segment(p.segments, c, p.chunk);
      if (segment < 0) {
        continue;
      }
      Compute* sum = p.tails + c * p.width;
      for (int64_t later = c + 1; later * p.chunk < p.segments.offsets[segment + 1]; ++later) {
        const Compute* head = p.heads + later * p.width;
        cpu::add_rows<1, false>(&head, &head, sum, p.width);
      }
      const double share = finish(p, p.segments.distinct[segment], sum);
      if (p.scale_partials != nullptr) {
        p.scale_partials[p.chunks + c] = share;
      }
    }
  }
};

template <typename Grad, typename Table>
struct SumChunks {
  using Rows = ScatterRows<Grad, Table>;
  BOV_ALWAYS_INLINE static void run(const typename Rows::Problem& p,
                                    int64_t first_chunk,
                                    int64_t last_chunk,
                                    typename Rows::Compute* sum) {
    Rows::sum_chunks(p, first_chunk, last_chunk, sum);
  }
};

template <typename Grad, typename Table>
struct CombineChunks {
  using Rows = ScatterRows<Grad, Table>;
  BOV_ALWAYS_INLINE static void run(const typename Rows::Problem& p,
                                    int64_t first_chunk,
                                    int64_t last_chunk) {
    Rows::combine_chunks(p, first_chunk, last_chunk);
  }
};

/// Zeroes the rows that no id points to; the others are written by the sums.
template <typename Table>
void zero_untouched_rows(const kernels::Segments& segments, Table* table_grad, int64_t rows, int64_t width) {
  const int32_t* last = segments.distinct + *segments.count;
  at::parallel_for(0, rows, cpu::rows_per_task(width), [&](int64_t begin, int64_t end) {
    const int32_t* touched = std::lower_bound(segments.distinct, last, begin);
    for (int64_t r = begin; r < end; ++r) {
      if (touched != last && *touched == r) {
        ++touched;
      } else {
        std::fill_n(table_grad + r * width, width, Table(0));
      }
    }
  });
}

kernels::Segments segments_of(const TokenIndex& index) {
  return {index.positions.const_data_ptr<int32_t>(),
          index.offsets.const_data_ptr<int32_t>(),
          index.distinct.const_data_ptr<int32_t>(),
          index.count.const_data_ptr<int32_t>(),
          index.positions.numel(),
          index.distinct.numel()};
}

/// Throws c10::Error unless `segments` are those of `ids`: what is read and written goes by them.
void check_segments(const kernels::Segments& segments, const at::Tensor& ids, int64_t capacity) {
  const int64_t* id = ids.const_data_ptr<int64_t>();
  const int64_t n = ids.numel();
  const int64_t count = *segments.count;
  bool same = count >= 0 && count <= capacity && segments.offsets[0] == 0 && segments.offsets[count] == n;
  for (int64_t s = 0; same && s < count; ++s) {
    const int64_t end = segments.offsets[s + 1];
    same =
        segments.offsets[s] < end && end <= n && (s == 0 || segments.distinct[s - 1] < segments.distinct[s]);
    for (int64_t k = segments.offsets[s]; same && k < end; ++k) {
      const int64_t position = segments.positions[k];
      same = position >= 0 && position < n && id[position] == segments.distinct[s];
    }
  }
  TORCH_CHECK(same, "value_gather: index is not the token_index of these ids");
}

/// The gradients of one table and its scale.
void sum_layer(const ValueGatherLayer& layer, const kernels::Segments& segments, int64_t positions) {
  const int64_t width = layer.table.size(1);
  const at::Tensor grad = with_adjacent_columns(layer.grad.reshape({positions, width}));
  const at::Tensor table = with_adjacent_columns(layer.table);
  const int64_t chunk = kernels::chunk_length(positions);
  const int64_t chunks = kernels::ceil_div(positions, chunk);
  std::vector<double> scale_partials(layer.scale_grad.defined() ? 2 * chunks : 0);
  cpu::dispatch_value_type(grad.scalar_type(), [&](auto grad_zero) {
    cpu::dispatch_value_type(table.scalar_type(), [&](auto table_zero) {
      using Grad = decltype(grad_zero);
      using Table = decltype(table_zero);
      using Rows = ScatterRows<Grad, Table>;
      using Compute = typename Rows::Compute;
      at::Tensor borders =
          at::empty({2, chunks, width}, table.options().dtype(c10::CppTypeToScalarType<Compute>::value));
      auto* heads = borders.mutable_data_ptr<Compute>();
      const typename Rows::Problem problem{
          grad.const_data_ptr<Grad>(),
          grad.stride(0),
          table.const_data_ptr<Table>(),
          table.stride(0),
          width,
          positions,
          chunk,
          chunks,
          segments,
          layer.scale.has_value() ? layer.scale->item().to<Compute>() : Compute(1),
          heads,
          heads + chunks * width,
          layer.table_grad.defined() ? layer.table_grad.mutable_data_ptr<Table>() : nullptr,
          layer.scale_grad.defined() ? scale_partials.data() : nullptr};
      const int64_t chunks_per_task = std::max<int64_t>(1, cpu::rows_per_task(width) / chunk);
      at::parallel_for(0, chunks, chunks_per_task, [&](int64_t begin, int64_t end) {
        std::vector<Compute> sum(width);
        cpu::run_widest<SumChunks<Grad, Table>>(problem, begin, end, sum.data());
      });
      at::parallel_for(0, chunks, chunks_per_task, [&](int64_t begin, int64_t end) {
        cpu::run_widest<CombineChunks<Grad, Table>>(problem, begin, end);
      });
      if (problem.table_grad != nullptr) {
        zero_untouched_rows(segments, problem.table_grad, table.size(0), width);
      }
    });
  });
  if (layer.scale_grad.defined()) {
    layer.scale_grad.fill_(std::accumulate(scale_partials.begin(), scale_partials.end(), 0.0));
  }
}

ValueGatherGradients value_gather_layers_backward_cpu(at::TensorList grads,
                                                      at::TensorList tables,
                                                      const at::Tensor& ids,
                                                      at::TensorList scales,
                                                      at::TensorList index,
                                                      bool table_gradients,
                                                      bool scale_gradients) {
  const ValueGatherBackward arguments{grads, tables, ids, scales, index, table_gradients, scale_gradients};
  arguments.check();
  const TokenIndex sorted = arguments.token_index();
  const kernels::Segments segments = segments_of(sorted);
  if (!index.empty()) {
    const at::Tensor list = cpu::checked_ids("value_gather", ids, tables[0].size(0));
    check_segments(segments, list, sorted.distinct.numel());
  }
  return value_gather_gradients(
      arguments, [&](const ValueGatherLayer& layer) { sum_layer(layer, segments, ids.numel()); });
}

}  // namespace

TORCH_LIBRARY_IMPL(bov, CPU, m) {
  m.impl("_value_gather_layers_backward", value_gather_layers_backward_cpu);
}

}  // namespace bov::ops
