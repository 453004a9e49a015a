#include <algorithm>
#include <limits>

#include "csrc/kernels/element.cuh"
#include "csrc/kernels/launch.cuh"
#include "csrc/kernels/value_gather.cuh"

namespace bov::kernels {
namespace {

int64_t element_size(Element type) {
  return type == Element::float64 ? 8 : type == Element::float32 ? 4 : 2;
}

/// Elements that one thread moves at a time: 16 bytes of the larger type.
template <typename A, typename B>
constexpr int kPackWidth = 16 / (sizeof(A) > sizeof(B) ? sizeof(A) : sizeof(B));

bool fits_pack(const void* address, int64_t stride, int64_t element_bytes, int64_t pack) {
  return stride % pack == 0 && reinterpret_cast<uintptr_t>(address) % (pack * element_bytes) == 0;
}

bool can_pack(const ScatterArguments& a, int64_t pack) {
  return a.width % pack == 0 && fits_pack(a.grad, a.grad_stride, element_size(a.grad_type), pack) &&
         fits_pack(a.table, a.row_stride, element_size(a.table_type), pack);
}

template <int V, typename Table, typename Out>
cudaError_t launch_gather(const GatherArguments& a, cudaStream_t stream) {
  using Compute = ComputeType<Table, Out>;
  GatherKernel<V, Table, Out> kernel{
      gather_grid(a.positions, a.width / V),    0, {}, a.ids, a.positions, a.rows, a.width, a.report,
      std::numeric_limits<Compute>::quiet_NaN()};
  for (int first = 0; first < a.layer_count; first += kMaxLayers) {
    kernel.layer_count = std::min(a.layer_count - first, kMaxLayers);
    for (int i = 0; i < kernel.layer_count; ++i) {
      const GatherLayer& layer = a.layers[first + i];
      kernel.layers[i] = {static_cast<const Table*>(layer.table), layer.row_stride,
                          static_cast<const Compute*>(layer.scale), static_cast<Out*>(layer.out)};
    }
    if (const cudaError_t status = launch(kernel, stream); status != cudaSuccess) {
      return status;
    }
  }
  return cudaSuccess;
}

template <int V, typename Grad, typename Table>
cudaError_t launch_scatter(const ScatterArguments& a, cudaStream_t stream) {
  using Compute = ComputeType<Table, Grad>;
  const ScatterProblem<Grad, Table> problem{static_cast<const Grad*>(a.grad),
                                            a.grad_stride,
                                            static_cast<const Table*>(a.table),
                                            a.row_stride,
                                            a.rows,
                                            a.width,
                                            a.segments,
                                            static_cast<const Compute*>(a.scale),
                                            static_cast<Compute*>(a.heads),
                                            static_cast<Compute*>(a.tails),
                                            static_cast<Table*>(a.table_grad),
                                            static_cast<Compute*>(a.scale_partials)};
  const ChunkGrid grid = chunk_grid(a.positions, a.width / V);
  const ScatterKernel<ScatterStep::sum, V, Grad, Table> sum{problem, grid};
  if (const cudaError_t status = launch(sum, stream); status != cudaSuccess) {
    return status;
  }
  return launch(ScatterKernel<ScatterStep::combine, V, Grad, Table>{problem, grid}, stream);
}

}  // namespace

cudaError_t value_gather(const GatherArguments& a, cudaStream_t stream) {
  if (a.positions == 0 || a.width == 0) {
    return cudaSuccess;
  }
  return with_element(a.table_type, [&](auto* table) {
    return with_element(a.out_type, [&](auto* out) {
      using Table = std::remove_pointer_t<decltype(table)>;
      using Out = std::remove_pointer_t<decltype(out)>;
      constexpr int kPack = kPackWidth<Table, Out>;
      const bool packed = std::all_of(a.layers, a.layers + a.layer_count, [&](const GatherLayer& layer) {
        return fits_pack(layer.table, layer.row_stride, sizeof(Table), kPack) &&
               fits_pack(layer.out, a.width, sizeof(Out), kPack);
      });
      return packed ? launch_gather<kPack, Table, Out>(a, stream) : launch_gather<1, Table, Out>(a, stream);
    });
  });
}

int64_t scale_partial_count(const ScatterArguments& a) {
  const int64_t largest = element_size(a.grad_type) > element_size(a.table_type) ? element_size(a.grad_type)
                                                                                 : element_size(a.table_type);
  const int64_t pack = can_pack(a, 16 / largest) ? 16 / largest : 1;
  const ChunkGrid grid = chunk_grid(a.positions, a.width / pack);
  return 2 * grid.chunks * grid.vectors;
}

cudaError_t value_gather_backward(const ScatterArguments& a, cudaStream_t stream) {
  if (a.positions == 0 || a.width == 0) {
    return cudaSuccess;
  }
  return with_element(a.grad_type, [&](auto* grad) {
    return with_element(a.table_type, [&](auto* table) {
      using Grad = std::remove_pointer_t<decltype(grad)>;
      using Table = std::remove_pointer_t<decltype(table)>;
      constexpr int kPack = kPackWidth<Grad, Table>;
      return can_pack(a, kPack) ? launch_scatter<kPack, Grad, Table>(a, stream)
                                : launch_scatter<1, Grad, Table>(a, stream);
    });
  });
}

}  // namespace bov::kernels
