#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/library.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "csrc/cpu/dispatch_value_type.h"
#include "csrc/cpu/row_math.h"
#include "csrc/kernels/value_gather_layout.h"
#include "csrc/value_gather_contract.h"

namespace bov::ops {
namespace {

using kernels::ComputeType;

/// Rows that are summed together, so that the sum is read and written once for all of them.
constexpr int64_t kBlockRows = 4;
/// Elements below which a second thread costs more than it helps.
constexpr int64_t kElementsPerTask = 32768;

int64_t rows_per_task(int64_t width) {
  return std::max<int64_t>(1, kElementsPerTask / std::max<int64_t>(1, width));
}

/// The same values with adjacent columns; rows may be strided.
at::Tensor with_adjacent_columns(const at::Tensor& matrix) {
  return matrix.stride(1) == 1 ? matrix : matrix.contiguous();
}

/// Index of the flat position `flat` in a tensor of shape `sizes`, as "[i, j]".
std::vector<int64_t> unravel(int64_t flat, at::IntArrayRef sizes) {
  std::vector<int64_t> index(sizes.size());
  for (size_t d = sizes.size(); d-- > 0;) {
    index[d] = flat % sizes[d];
    flat /= sizes[d];
  }
  return index;
}

/// Ids as a flat int64 list, each checked to be in [0, rows).
at::Tensor checked_ids(const at::Tensor& ids, int64_t rows) {
  const at::Tensor list = ids.to(at::kLong).contiguous();
  const int64_t* id = list.const_data_ptr<int64_t>();
  const int64_t* bad = std::find_if(id, id + list.numel(), [rows](int64_t x) { return x < 0 || x >= rows; });
  TORCH_CHECK_INDEX(bad == id + list.numel(), "value_gather: id ", *bad, " at ids",
                    at::IntArrayRef(unravel(bad - id, ids.sizes())), " is outside the table of ", rows,
                    " rows");
  return list;
}

template <typename Compute>
Compute scale_value(const std::optional<at::Tensor>& scale) {
  return scale.has_value() ? scale->item().to<Compute>() : Compute(1);
}

template <typename Table, typename Out>
struct GatherRows {
  using Compute = ComputeType<Table, Out>;
  struct Problem {
    const Table* table;
    int64_t row_stride, width;
    const int64_t* ids;
    bool scaled;
    Compute scale;
    Out* out;
  };

  BOV_ALWAYS_INLINE static void run(const Problem& p, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Table* row = p.table + p.ids[i] * p.row_stride;
      Out* out = p.out + i * p.width;
      if constexpr (std::is_same_v<Table, Out>) {
        if (!p.scaled) {
          std::copy_n(row, p.width, out);
          continue;
        }
      }
      cpu::scale_row(row, p.scale, out, p.width);
    }
  }
};

at::Tensor value_gather_cpu(const at::Tensor& table,
                            const at::Tensor& ids,
                            const std::optional<at::Tensor>& scale,
                            std::optional<at::ScalarType> dtype) {
  const at::ScalarType out_type = check_value_gather(table, ids, scale, dtype);
  const at::Tensor list = checked_ids(ids, table.size(0));
  const at::Tensor rows = with_adjacent_columns(table);
  at::Tensor out = at::empty_symint(value_gather_shape(table, ids), table.options().dtype(out_type));
  cpu::dispatch_value_type(table.scalar_type(), [&](auto table_zero) {
    cpu::dispatch_value_type(out_type, [&](auto out_zero) {
      using Table = decltype(table_zero);
      using Out = decltype(out_zero);
      using Loop = GatherRows<Table, Out>;
      const typename Loop::Problem problem{
          rows.const_data_ptr<Table>(),   rows.stride(0),    rows.size(1),
          list.const_data_ptr<int64_t>(), scale.has_value(), scale_value<typename Loop::Compute>(scale),
          out.mutable_data_ptr<Out>()};
      at::parallel_for(0, list.numel(), rows_per_task(problem.width),
                       [&](int64_t begin, int64_t end) { cpu::run_widest<Loop>(problem, begin, end); });
    });
  });
  return out;
}

/// Positions in stable order of their ids, by counting.
struct SortedIds {
  std::vector<int64_t> ids;        ///< [n] ascending
  std::vector<int64_t> order;      ///< [n] position of each
  std::vector<int64_t> row_begin;  ///< [rows + 1] first sorted position whose id is at least r
};

SortedIds sort_ids(const int64_t* ids, int64_t n, int64_t rows) {
  SortedIds sorted{std::vector<int64_t>(n), std::vector<int64_t>(n), std::vector<int64_t>(rows + 1, 0)};
  for (int64_t i = 0; i < n; ++i) {
    ++sorted.row_begin[ids[i] + 1];
  }
  std::partial_sum(sorted.row_begin.begin(), sorted.row_begin.end(), sorted.row_begin.begin());
  std::vector<int64_t> next(sorted.row_begin.begin(), sorted.row_begin.end() - 1);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t place = next[ids[i]]++;
    sorted.ids[place] = ids[i];
    sorted.order[place] = i;
  }
  return sorted;
}

/// The sums over segments of csrc/kernels/value_gather_layout.h, a whole row at a time.
template <typename Grad, typename Table>
struct ScatterRows {
  using Compute = ComputeType<Table, Grad>;
  struct Problem {
    const Grad* grad;
    int64_t grad_stride;
    const Table* table;
    int64_t row_stride, width, positions, chunk, chunks;
    const SortedIds& sorted;
    Compute scale;
    Compute* heads;          ///< [chunks, width]
    Compute* tails;          ///< [chunks, width]
    Table* table_grad;       ///< [rows, width] or null
    double* scale_partials;  ///< [2, chunks] or null

    const Grad* grad_row(int64_t place) const { return grad + sorted.order[place] * grad_stride; }
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

  /// sum = the rows of grad at sorted positions [begin, end), added in order.
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
    for (int64_t chunk = first_chunk; chunk < last_chunk; ++chunk) {
      const int64_t begin = chunk * p.chunk;
      const int64_t end = std::min(begin + p.chunk, p.positions);
      double share = 0.0;
      for (int64_t k = begin; k < end;) {
        const auto piece =
            kernels::segment_piece(p.sorted.ids.data(), p.sorted.row_begin.data(), k, begin, end);
        if (piece.starts_before || piece.continues) {
          sum_piece(p, k, piece.end, (piece.starts_before ? p.heads : p.tails) + chunk * p.width);
        } else {
          sum_piece(p, k, piece.end, sum);
          share += finish(p, piece.row, sum);
        }
        k = piece.end;
      }
      if (p.scale_partials != nullptr) {
        p.scale_partials[chunk] = share;
      }
    }
  }

  /// Adds up and finishes the segments that begin in these chunks and cross their ends.
  BOV_ALWAYS_INLINE static void combine_chunks(const Problem& p, int64_t first_chunk, int64_t last_chunk) {
    for (int64_t chunk = first_chunk; chunk < last_chunk; ++chunk) {
      const int64_t begin = chunk * p.chunk;
      const int64_t end = std::min(begin + p.chunk, p.positions);
      const int64_t row = p.sorted.ids[end - 1];
      const int64_t segment_end = p.sorted.row_begin[row + 1];
      if (p.sorted.row_begin[row] < begin || segment_end <= end) {
        continue;
      }
      Compute* sum = p.tails + chunk * p.width;
      for (int64_t later = chunk + 1; later * p.chunk < segment_end; ++later) {
        const Compute* head = p.heads + later * p.width;
        cpu::add_rows<1, false>(&head, &head, sum, p.width);
      }
      const double share = finish(p, row, sum);
      if (p.scale_partials != nullptr) {
        p.scale_partials[p.chunks + chunk] = share;
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
void zero_untouched_rows(const SortedIds& sorted, Table* table_grad, int64_t rows, int64_t width) {
  at::parallel_for(0, rows, rows_per_task(width), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      if (sorted.row_begin[r] == sorted.row_begin[r + 1]) {
        std::fill_n(table_grad + r * width, width, Table(0));
      }
    }
  });
}

std::tuple<at::Tensor, at::Tensor> value_gather_backward_cpu(const at::Tensor& grad,
                                                             const at::Tensor& table,
                                                             const at::Tensor& ids,
                                                             const std::optional<at::Tensor>& scale,
                                                             bool table_gradient,
                                                             bool scale_gradient) {
  check_value_gather_backward(grad, table, ids, scale, scale_gradient);
  const at::Tensor list = checked_ids(ids, table.size(0));
  const int64_t positions = list.numel();
  const int64_t width = table.size(1);
  const at::Tensor grad_rows = with_adjacent_columns(grad.reshape({positions, width}));
  const at::Tensor table_rows = with_adjacent_columns(table);
  at::Tensor table_grad = at::empty(table_gradient ? table.sizes() : at::IntArrayRef{0}, table.options());
  const SortedIds sorted = sort_ids(list.const_data_ptr<int64_t>(), positions, table.size(0));
  const int64_t chunk = kernels::chunk_length(positions);
  const int64_t chunks = kernels::ceil_div(positions, chunk);
  std::vector<double> scale_partials(scale_gradient ? 2 * chunks : 0);

  cpu::dispatch_value_type(grad.scalar_type(), [&](auto grad_zero) {
    cpu::dispatch_value_type(table.scalar_type(), [&](auto table_zero) {
      using Grad = decltype(grad_zero);
      using Table = decltype(table_zero);
      using Rows = ScatterRows<Grad, Table>;
      using Compute = typename Rows::Compute;
      const auto borders = std::make_unique_for_overwrite<Compute[]>(2 * chunks * width);
      const typename Rows::Problem problem{grad_rows.const_data_ptr<Grad>(),
                                           grad_rows.stride(0),
                                           table_rows.const_data_ptr<Table>(),
                                           table_rows.stride(0),
                                           width,
                                           positions,
                                           chunk,
                                           chunks,
                                           sorted,
                                           scale_value<Compute>(scale),
                                           borders.get(),
                                           borders.get() + chunks * width,
                                           table_gradient ? table_grad.mutable_data_ptr<Table>() : nullptr,
                                           scale_gradient ? scale_partials.data() : nullptr};
      const int64_t chunks_per_task = std::max<int64_t>(1, rows_per_task(width) / chunk);
      at::parallel_for(0, chunks, chunks_per_task, [&](int64_t begin, int64_t end) {
        std::vector<Compute> sum(width);
        cpu::run_widest<SumChunks<Grad, Table>>(problem, begin, end, sum.data());
      });
      at::parallel_for(0, chunks, chunks_per_task, [&](int64_t begin, int64_t end) {
        cpu::run_widest<CombineChunks<Grad, Table>>(problem, begin, end);
      });
      if (table_gradient) {
        zero_untouched_rows(sorted, problem.table_grad, table.size(0), width);
      }
    });
  });

  at::Tensor scale_grad = at::empty({0}, table.options());
  if (scale_gradient) {
    const double sum = std::accumulate(scale_partials.begin(), scale_partials.end(), 0.0);
    scale_grad = at::full(scale->sizes(), sum, scale->options());
  }
  return {table_grad, scale_grad};
}

}  // namespace

TORCH_LIBRARY_IMPL(bov, CPU, m) {
  m.impl("value_gather", value_gather_cpu);
  m.impl("_value_gather_backward", value_gather_backward_cpu);
}

}  // namespace bov::ops
