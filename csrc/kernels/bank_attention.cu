#include <cmath>
#include <limits>
#include <type_traits>

#include "csrc/kernels/bank_attention.cuh"
#include "csrc/kernels/bank_attention_scores.h"
#include "csrc/kernels/element.cuh"

namespace bov::kernels {
namespace {

constexpr int kScoreThreads = 256;
constexpr int kRowThreads = 128;
constexpr int kCombineThreads = 8 * kCombineColumns;
constexpr int kListThreads = 256;

/// What the kernels' code wants of a thread. The bodies are for the device alone.
struct DeviceThread {
#ifdef __CUDA_ARCH__
  __device__ int index() const {
    return threadIdx.x;
  }
  __device__ int count() const {
    return blockDim.x;
  }
  __device__ int64_t block_x() const {
    return blockIdx.x;
  }
  __device__ int64_t block_y() const {
    return blockIdx.y;
  }
  __device__ int64_t block_z() const {
    return blockIdx.z;
  }
  __device__ void sync() const {
    __syncthreads();
  }
  template <typename T>
  __device__ T shuffle_xor(T value, int mask) const {
    return __shfl_xor_sync(0xffffffffu, value, mask);
  }
  __device__ void* shared() const {
    extern __shared__ double memory[];
    return memory;
  }
#endif
};

template <int V, typename Key, typename Compute>
__global__ void score_kernel(const ScoreProblem<Key, Compute> problem) {
#ifdef __CUDA_ARCH__
  score_thread<V>(DeviceThread(), problem);
#endif
}

template <typename Compute>
__global__ void largest_kernel(const LargestProblem<Compute> problem) {
#ifdef __CUDA_ARCH__
  largest_thread(DeviceThread(), problem);
#endif
}

template <int V, typename Entries, typename Table, typename Compute>
__global__ void row_kernel(const Entries entries, const RowProblem<Table, Compute> problem) {
#ifdef __CUDA_ARCH__
  row_thread<V>(DeviceThread(), entries, problem);
#endif
}

template <typename Entries, typename Out, typename Compute>
__global__ void combine_list_kernel(const Entries entries, const CombineProblem<Out, Compute> problem) {
#ifdef __CUDA_ARCH__
  combine_thread(DeviceThread(), entries, problem);
#endif
}

__global__ void piece_key_kernel(
    const BankShape shape, const BankIds ids, const int64_t* lengths, int64_t positions, int64_t* keys) {
  const int64_t i = int64_t(blockIdx.x) * kListThreads + threadIdx.x;
  if (i < positions) {
    keys[i] = piece_key(shape, ids, lengths, i);
  }
}

__global__ void first_segment_kernel(const int32_t* distinct,
                                     const int32_t* count,
                                     int64_t rows,
                                     int64_t batch,
                                     int32_t* segment_of_sequence) {
  const int64_t b = int64_t(blockIdx.x) * kListThreads + threadIdx.x;
  if (b <= batch) {
    segment_of_sequence[b] = first_segment_of(distinct, *count, rows, b);
  }
}

dim3 grid_of(int64_t x, int64_t y, int64_t z) {
  return {static_cast<unsigned>(x), static_cast<unsigned>(y), static_cast<unsigned>(z)};
}

bool fits_pack(const void* address, int64_t bytes) {
  return reinterpret_cast<uintptr_t>(address) % bytes == 0;
}

template <int V, typename Key, typename Compute>
cudaError_t launch_scores(const BankArguments& a, cudaStream_t stream) {
  const ScoreProblem<Key, Compute> problem{
      a.shape,
      a.lengths,
      static_cast<const Key*>(a.keys),
      a.key_batch_stride,
      a.key_slot_stride,
      a.key_head_stride,
      static_cast<const Compute*>(a.queries),
      static_cast<Compute>(1.0 / std::sqrt(static_cast<double>(a.shape.width))),
      static_cast<Compute*>(a.scores),
      static_cast<Compute*>(a.largest),
      std::numeric_limits<Compute>::lowest()};
  const dim3 grid = grid_of(a.shape.splits(), a.shape.key_heads, a.shape.batch);
  score_kernel<V><<<grid, kScoreThreads, 0, stream>>>(problem);
  return cudaGetLastError();
}

template <typename Key, typename Compute>
cudaError_t add_scores(const BankArguments& a, cudaStream_t stream) {
  constexpr int kPack = 16 / sizeof(Key);
  const bool packed = a.shape.width % kPack == 0 && a.key_batch_stride % kPack == 0 &&
                      a.key_slot_stride % kPack == 0 && a.key_head_stride % kPack == 0 &&
                      fits_pack(a.keys, 16);
  return packed ? launch_scores<kPack, Key, Compute>(a, stream) : launch_scores<1, Key, Compute>(a, stream);
}

template <int V, typename Table, typename Entries, typename Compute>
cudaError_t launch_rows(const BankArguments& a,
                        const Entries& entries,
                        const RowProblem<Table, Compute>& problem,
                        cudaStream_t stream) {
  const int64_t tiles = ceil_div(a.shape.key_heads * a.shape.width / V, kRowThreads);
  const dim3 grid = grid_of(a.shape.splits(), tiles, a.shape.batch);
  row_kernel<V><<<grid, kRowThreads, 0, stream>>>(entries, problem);
  return cudaGetLastError();
}

template <typename Table, typename Entries, typename Compute>
cudaError_t add_rows(
    const BankArguments& a, const Entries& entries, Compute* sums, Compute* partials, cudaStream_t stream) {
  const RowProblem<Table, Compute> problem{static_cast<const Table*>(a.table),
                                           a.row_stride,
                                           a.row_scale,
                                           sums,
                                           partials,
                                           a.shape.splits(),
                                           a.report,
                                           std::numeric_limits<Compute>::quiet_NaN()};
  // Eight columns at most, so that a thread's sums stay in registers.
  constexpr int kPack = sizeof(Table) == 1 ? 8 : 16 / sizeof(Table);
  const bool packed =
      a.shape.width % kPack == 0 && a.row_stride % kPack == 0 && fits_pack(a.table, kPack * sizeof(Table));
  return packed ? launch_rows<kPack, Table>(a, entries, problem, stream)
                : launch_rows<1, Table>(a, entries, problem, stream);
}

template <typename Out, typename Entries, typename Compute>
cudaError_t combine(const BankArguments& a,
                    const Entries& entries,
                    const Compute* sums,
                    const Compute* partials,
                    cudaStream_t stream) {
  const CombineProblem<Out, Compute> problem{sums,
                                             partials,
                                             a.shape.splits(),
                                             static_cast<const Compute*>(a.scale),
                                             static_cast<Out*>(a.out),
                                             std::numeric_limits<Compute>::lowest(),
                                             std::numeric_limits<Compute>::quiet_NaN()};
  const dim3 grid = grid_of(a.shape.rows(), ceil_div(a.shape.width, kCombineColumns), a.shape.batch);
  combine_list_kernel<<<grid, kCombineThreads, 2 * kCombineThreads * sizeof(Compute), stream>>>(entries,
                                                                                                problem);
  return cudaGetLastError();
}

/// with_element, but float64 storage goes with float64 arithmetic alone.
template <typename Compute, typename Body>
cudaError_t with_stored(Element type, Body body) {
  return with_element(type, [&](auto* stored) {
    if constexpr (std::is_same_v<decltype(stored), double*> && std::is_same_v<Compute, float>) {
      return cudaErrorInvalidValue;
    } else {
      return body(stored);
    }
  });
}

template <typename Compute, typename Entries>
cudaError_t finish(const BankArguments& a, const Entries& entries, cudaStream_t stream) {
  auto* sums = static_cast<Compute*>(a.sums);
  auto* partials = static_cast<Compute*>(a.partials);
  const cudaError_t status =
      a.row_scale != nullptr
          ? add_rows<int8_t>(a, entries, sums, partials, stream)
          : with_stored<Compute>(a.table_type, [&](auto* table) {
              return add_rows<std::remove_pointer_t<decltype(table)>>(a, entries, sums, partials, stream);
            });
  if (status != cudaSuccess) {
    return status;
  }
  return with_stored<Compute>(a.out_type, [&](auto* out) {
    return combine<std::remove_pointer_t<decltype(out)>, Entries, Compute>(a, entries, sums, partials,
                                                                           stream);
  });
}

template <typename Compute>
cudaError_t finish_pieces(const BankArguments& a, const BankPieces& pieces, cudaStream_t stream) {
  const LargestProblem<Compute> largest{a.shape, a.lengths, static_cast<const Compute*>(a.largest),
                                        static_cast<Compute*>(pieces.largest),
                                        std::numeric_limits<Compute>::lowest()};
  largest_kernel<<<grid_of(a.shape.rows(), 1, a.shape.batch), 32, 0, stream>>>(largest);
  if (const cudaError_t status = cudaGetLastError(); status != cudaSuccess) {
    return status;
  }
  const auto blocks = static_cast<unsigned>(ceil_div(a.shape.batch + 1, kListThreads));
  first_segment_kernel<<<blocks, kListThreads, 0, stream>>>(pieces.distinct, pieces.count, a.shape.table_rows,
                                                            a.shape.batch, pieces.segment_of_sequence);
  if (const cudaError_t status = cudaGetLastError(); status != cudaSuccess) {
    return status;
  }
  return finish<Compute>(
      a,
      PieceEntries<Compute>{a.shape, a.lengths, a.ids, pieces.order, pieces.offsets, pieces.distinct,
                            pieces.segment_of_sequence, static_cast<const Compute*>(a.scores),
                            static_cast<const Compute*>(pieces.largest),
                            static_cast<Compute*>(pieces.slot_weights),
                            static_cast<Compute*>(pieces.piece_weights)},
      stream);
}

template <typename Compute>
cudaError_t run(const BankArguments& a, const BankPieces* pieces, cudaStream_t stream) {
  const cudaError_t status = with_stored<Compute>(a.key_type, [&](auto* keys) {
    return add_scores<std::remove_pointer_t<decltype(keys)>, Compute>(a, stream);
  });
  if (status != cudaSuccess) {
    return status;
  }
  if (pieces != nullptr) {
    return finish_pieces<Compute>(a, *pieces, stream);
  }
  return finish<Compute>(
      a,
      SlotEntries<Compute>{a.shape, a.lengths, a.ids, static_cast<const Compute*>(a.scores),
                           static_cast<const Compute*>(a.largest)},
      stream);
}

}  // namespace

cudaError_t bank_attention(const BankArguments& a, const BankPieces* pieces, cudaStream_t stream) {
  return a.in_float64 ? run<double>(a, pieces, stream) : run<float>(a, pieces, stream);
}

cudaError_t bank_piece_keys(const BankArguments& a, int64_t* keys, cudaStream_t stream) {
  const int64_t positions = a.shape.batch * a.shape.capacity();
  const auto blocks = static_cast<unsigned>(ceil_div(positions, kListThreads));
  piece_key_kernel<<<blocks, kListThreads, 0, stream>>>(a.shape, a.ids, a.lengths, positions, keys);
  return cudaGetLastError();
}

}  // namespace bov::kernels
