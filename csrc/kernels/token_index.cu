#include <thrust/iterator/counting_iterator.h>

#include <algorithm>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_select.cuh>

#include "csrc/kernels/launch.cuh"
#include "csrc/kernels/token_index.cuh"
#include "csrc/kernels/token_index_threads.h"

namespace bov::kernels {
namespace {

/// Keys before and after sorting, positions before sorting, then cub's space; on 256-byte borders, as cub wants it.
struct Workspace {
  int32_t *keys, *sorted_keys, *places;
  void* cub;
  size_t list_bytes;

  Workspace(void* memory, int64_t positions) : list_bytes((positions * sizeof(int32_t) + 255) / 256 * 256) {
    const auto at = [&](int list) {
      return memory == nullptr ? nullptr : static_cast<char*>(memory) + list * list_bytes;
    };
    keys = reinterpret_cast<int32_t*>(at(0));
    sorted_keys = reinterpret_cast<int32_t*>(at(1));
    places = reinterpret_cast<int32_t*>(at(2));
    cub = at(3);
  }
};

cudaError_t sort_pairs(const TokenIndexArguments& a, const Workspace& w, size_t& bytes, cudaStream_t stream) {
  int end_bit = 1;  // the key `rows` needs its bits too
  while ((a.rows >> end_bit) != 0) {
    ++end_bit;
  }
  return cub::DeviceRadixSort::SortPairs(w.cub, bytes, w.keys, w.sorted_keys, w.places, a.order,
                                         static_cast<int>(a.positions), 0, end_bit, stream);
}

cudaError_t select_begins(const TokenIndexArguments& a,
                          const Workspace& w,
                          size_t& bytes,
                          cudaStream_t stream) {
  return cub::DeviceSelect::If(w.cub, bytes, thrust::counting_iterator<int32_t>(0), a.offsets, a.count,
                               static_cast<int>(a.positions), BeginsSegment{w.sorted_keys, a.rows}, stream);
}

}  // namespace

cudaError_t token_index(const TokenIndexArguments& a,
                        void* workspace,
                        size_t& workspace_bytes,
                        cudaStream_t stream) {
  const Workspace w(workspace, a.positions);
  if (workspace == nullptr) {
    size_t sort_bytes = 0;
    size_t select_bytes = 0;
    const cudaError_t sort_status = sort_pairs(a, w, sort_bytes, stream);
    const cudaError_t select_status = select_begins(a, w, select_bytes, stream);
    workspace_bytes = 3 * w.list_bytes + std::max(sort_bytes, select_bytes);
    return sort_status != cudaSuccess ? sort_status : select_status;
  }
  size_t cub_bytes = workspace_bytes - 3 * w.list_bytes;
  const PairKernel pairs{a.ids, a.positions, a.rows, w.keys, w.places, a.report};
  if (const cudaError_t status = launch(pairs, stream); status != cudaSuccess) {
    return status;
  }
  if (const cudaError_t status = sort_pairs(a, w, cub_bytes, stream); status != cudaSuccess) {
    return status;
  }
  if (const cudaError_t status = select_begins(a, w, cub_bytes, stream); status != cudaSuccess) {
    return status;
  }
  const int64_t capacity = std::min(a.positions, a.rows);
  return launch(FillKernel{w.sorted_keys, a.positions, a.rows, a.count, capacity, a.offsets, a.distinct},
                stream);
}

}  // namespace bov::kernels
