#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/library.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "csrc/cpu/bfloat16_rows.h"
#include "csrc/cpu/checked_ids.h"
#include "csrc/cpu/dispatch_value_type.h"
#include "csrc/cpu/row_math.h"
#include "csrc/value_gather_contract.h"

namespace bov::ops {
namespace {

/// Columns that are moved at a time.
constexpr int64_t kStrip = 64;
/// Rows between the one that is moved and the one that is asked for.
constexpr int64_t kRowsAhead = 4;
/// Results that no cache keeps until they are used; they bypass the caches.
constexpr int64_t kStreamBytes = int64_t{32} << 20;

template <typename Table, typename Out>
struct GatherRows {
  using Compute = kernels::ComputeType<Table, Out>;
  struct Layer {
    const Table* table;
    int64_t row_stride;
    Compute scale;
    Out* out;
  };
  struct Problem {
    std::vector<Layer> layers;
    bool scaled;
    const int64_t* ids;
    int64_t positions, width;
    bool streams;

    const Table* row(const Layer& layer, int64_t position) const {
      return layer.table + ids[position] * layer.row_stride;
    }
  };

  BOV_ALWAYS_INLINE static void move_strip(const Problem& p, const Layer& layer, const Table* from, Out* to) {
    if constexpr (std::is_same_v<Table, c10::BFloat16> && std::is_same_v<Out, c10::BFloat16>) {
      if (p.scaled) {
        cpu::scale_bfloat16(from, layer.scale, to, kStrip);
        return;
      }
    }
    move(p, layer, from, to, kStrip);
  }

  BOV_ALWAYS_INLINE static void move(
      const Problem& p, const Layer& layer, const Table* from, Out* to, int64_t count) {
    if constexpr (std::is_same_v<Table, Out>) {
      if (!p.scaled) {
        std::copy_n(from, count, to);
        return;
      }
    }
    cpu::scale_row(from, layer.scale, to, count);
  }

  /// Rows [begin, end) of the results, counted through all layers.
  BOV_ALWAYS_INLINE static void run(const Problem& p, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Layer& layer = p.layers[i / p.positions];
      const int64_t position = i % p.positions;
      const Table* row = p.row(layer, position);
      const Table* ahead = p.row(layer, std::min(position + kRowsAhead, p.positions - 1));
      Out* out = layer.out + position * p.width;
      int64_t column = 0;
      for (; column + kStrip <= p.width; column += kStrip) {
        cpu::prefetch<kStrip>(ahead + column);
        if (p.streams) {
          alignas(64) Out strip[kStrip];
          move_strip(p, layer, row + column, strip);
          cpu::stream<kStrip>(strip, out + column);
        } else {
          move_strip(p, layer, row + column, out + column);
        }
      }
      move(p, layer, row + column, out + column, p.width - column);
    }
    cpu::stream_fence();
  }
};

std::vector<at::Tensor> value_gather_layers_cpu(at::TensorList tables,
                                                const at::Tensor& ids,
                                                at::TensorList scales,
                                                at::TensorList index,
                                                std::optional<at::ScalarType> dtype) {
  std::vector<at::Tensor> results = empty_value_gather(tables, ids, scales, index, dtype);
  const at::Tensor list = cpu::checked_ids("value_gather", ids, tables[0].size(0));
  std::vector<at::Tensor> rows;
  std::ranges::transform(tables, std::back_inserter(rows), with_adjacent_columns);
  cpu::dispatch_value_type(tables[0].scalar_type(), [&](auto table_zero) {
    cpu::dispatch_value_type(results[0].scalar_type(), [&](auto out_zero) {
      using Table = decltype(table_zero);
      using Out = decltype(out_zero);
      using Loop = GatherRows<Table, Out>;
      const int64_t width = tables[0].size(1);
      const int64_t bytes = std::ssize(tables) * list.numel() * width * static_cast<int64_t>(sizeof(Out));
      const bool aligned = width * sizeof(Out) % cpu::kStreamAlignment == 0;
      typename Loop::Problem problem{{},           !scales.empty(), list.const_data_ptr<int64_t>(),
                                     list.numel(), width,           aligned && bytes >= kStreamBytes};
      for (size_t i = 0; i < tables.size(); ++i) {
        problem.layers.push_back({rows[i].const_data_ptr<Table>(), rows[i].stride(0),
                                  scales.empty() ? 1 : scales[i].item().to<typename Loop::Compute>(),
                                  results[i].mutable_data_ptr<Out>()});
      }
      at::parallel_for(0, std::ssize(problem.layers) * problem.positions, cpu::rows_per_task(problem.width),
                       [&](int64_t begin, int64_t end) { cpu::run_widest<Loop>(problem, begin, end); });
    });
  });
  return results;
}

}  // namespace

TORCH_LIBRARY_IMPL(bov, CPU, m) {
  m.impl("value_gather_layers", value_gather_layers_cpu);
}

}  // namespace bov::ops
