#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cub/device/device_radix_sort.cuh>
#include <limits>

#include "csrc/kernels/value_gather.cuh"

namespace bov::kernels {
namespace {

constexpr int kSortThreads = 256;

template <int V, typename Table, typename Out>
__global__ void gather_kernel(GatherProblem<Table, Out> problem, GatherGrid grid) {
  gather_thread<V>(problem, grid, blockIdx.x, threadIdx.x);
}

template <int V, typename Grad, typename Table>
__global__ void chunk_kernel(ScatterProblem<Grad, Table> problem, ChunkGrid grid) {
  const int64_t vector = int64_t(blockIdx.y) * grid.threads + threadIdx.x;
  if (vector < grid.vectors) {
    chunk_thread<V>(problem, grid, blockIdx.x, vector);
  }
}

template <int V, typename Grad, typename Table>
__global__ void combine_kernel(ScatterProblem<Grad, Table> problem, ChunkGrid grid) {
  const int64_t vector = int64_t(blockIdx.y) * grid.threads + threadIdx.x;
  if (vector < grid.vectors) {
    combine_thread<V>(problem, grid, blockIdx.x, vector);
  }
}

__global__ void make_sort_pairs(
    const int64_t* ids, int64_t positions, int64_t rows, int32_t* keys, int32_t* values) {
  const int64_t i = int64_t(blockIdx.x) * kSortThreads + threadIdx.x;
  if (i < positions) {
    const int64_t id = ids[i];
    keys[i] = static_cast<int32_t>(id >= 0 && id < rows ? id : rows);
    values[i] = static_cast<int32_t>(i);
  }
}

__global__ void find_row_begins(const int32_t* sorted_ids,
                                int64_t positions,
                                int64_t rows,
                                int32_t* row_begin) {
  const int64_t row = int64_t(blockIdx.x) * kSortThreads + threadIdx.x;
  if (row <= rows) {
    row_begin[row] = static_cast<int32_t>(first_position_of(sorted_ids, positions, row));
  }
}

/// Calls `body` with a null pointer of the C++ type.
template <typename Body>
cudaError_t with_element(Element type, Body body) {
  switch (type) {
    case Element::float64:
      return body(static_cast<double*>(nullptr));
    case Element::float32:
      return body(static_cast<float*>(nullptr));
    case Element::bfloat16:
      return body(static_cast<__nv_bfloat16*>(nullptr));
    case Element::float16:
      return body(static_cast<__half*>(nullptr));
  }
  return cudaErrorInvalidValue;
}

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
  const GatherProblem<Table, Out> problem{static_cast<const Table*>(a.table),
                                          a.rows,
                                          a.row_stride,
                                          a.ids,
                                          a.positions,
                                          static_cast<const Compute*>(a.scale),
                                          static_cast<Out*>(a.out),
                                          a.width,
                                          a.report,
                                          std::numeric_limits<Compute>::quiet_NaN()};
  const GatherGrid grid = gather_grid(a.positions, a.width / V);
  gather_kernel<V><<<static_cast<unsigned>(grid.blocks), grid.threads, 0, stream>>>(problem, grid);
  return cudaGetLastError();
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
                                            a.positions,
                                            a.sorted_ids,
                                            a.order,
                                            a.row_begin,
                                            static_cast<const Compute*>(a.scale),
                                            static_cast<Compute*>(a.heads),
                                            static_cast<Compute*>(a.tails),
                                            static_cast<Table*>(a.table_grad),
                                            static_cast<Compute*>(a.scale_partials)};
  const ChunkGrid grid = chunk_grid(a.positions, a.width / V);
  const dim3 blocks(static_cast<unsigned>(grid.chunks), static_cast<unsigned>(grid.tiles));
  chunk_kernel<V><<<blocks, grid.threads, 0, stream>>>(problem, grid);
  if (const cudaError_t status = cudaGetLastError(); status != cudaSuccess) {
    return status;
  }
  combine_kernel<V><<<blocks, grid.threads, 0, stream>>>(problem, grid);
  return cudaGetLastError();
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
      const bool packed = fits_pack(a.table, a.row_stride, sizeof(Table), kPack) &&
                          fits_pack(a.out, a.width, sizeof(Out), kPack);
      return packed ? launch_gather<kPack, Table, Out>(a, stream) : launch_gather<1, Table, Out>(a, stream);
    });
  });
}

cudaError_t sort_ids(const SortArguments& a, void* workspace, size_t& workspace_bytes, cudaStream_t stream) {
  const int count = static_cast<int>(a.positions);
  int end_bit = 1;
  while ((a.rows >> end_bit) != 0) {
    ++end_bit;
  }
  // Unsorted keys, unsorted positions, then the space of cub, each on a 256-byte border as cub wants it.
  const size_t list_bytes = (a.positions * sizeof(int32_t) + 255) / 256 * 256;
  auto* keys = static_cast<int32_t*>(workspace);
  auto* values = reinterpret_cast<int32_t*>(static_cast<char*>(workspace) + list_bytes);
  void* sort_space = workspace == nullptr ? nullptr : static_cast<char*>(workspace) + 2 * list_bytes;
  size_t sort_bytes = workspace == nullptr ? 0 : workspace_bytes - 2 * list_bytes;
  if (workspace != nullptr) {
    const auto blocks = static_cast<unsigned>(ceil_div(a.positions, kSortThreads));
    make_sort_pairs<<<blocks, kSortThreads, 0, stream>>>(a.ids, a.positions, a.rows, keys, values);
  }
  if (const cudaError_t status = cub::DeviceRadixSort::SortPairs(sort_space, sort_bytes, keys, a.sorted_ids,
                                                                 values, a.order, count, 0, end_bit, stream);
      status != cudaSuccess) {
    return status;
  }
  if (workspace == nullptr) {
    workspace_bytes = 2 * list_bytes + sort_bytes;
    return cudaSuccess;
  }
  const auto blocks = static_cast<unsigned>(ceil_div(a.rows + 1, kSortThreads));
  find_row_begins<<<blocks, kSortThreads, 0, stream>>>(a.sorted_ids, a.positions, a.rows, a.row_begin);
  return cudaGetLastError();
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
