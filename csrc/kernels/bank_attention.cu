#include <cmath>
#include <limits>
#include <type_traits>

#include "csrc/kernels/bank_attention.cuh"
#include "csrc/kernels/bank_attention_rows.h"
#include "csrc/kernels/bank_attention_scores.h"
#include "csrc/kernels/element.cuh"
#include "csrc/kernels/launch.cuh"

namespace bov::kernels {
namespace {

bool fits_pack(const void* address, int64_t bytes) {
  return reinterpret_cast<uintptr_t>(address) % bytes == 0;
}

template <int V, typename Key, typename Compute>
cudaError_t launch_scores(const BankArguments& a, cudaStream_t stream) {
  const BankScoreKernel<V, Key, Compute> kernel{
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
  return launch(kernel, stream);
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
cudaError_t launch_rows(
    const BankArguments& a, const Entries& entries, Compute* sums, Compute* partials, cudaStream_t stream) {
  const BankRowKernel<V, Entries, Table, Compute> kernel{
      entries,  static_cast<const Table*>(a.table),       a.row_stride, a.row_scale, sums, partials,
      a.report, std::numeric_limits<Compute>::quiet_NaN()};
  return launch(kernel, stream);
}

template <typename Table, typename Entries, typename Compute>
cudaError_t add_rows(
    const BankArguments& a, const Entries& entries, Compute* sums, Compute* partials, cudaStream_t stream) {
  // Eight columns at most, so that a thread's sums stay in registers.
  constexpr int kPack = sizeof(Table) == 1 ? 8 : 16 / sizeof(Table);
  const bool packed =
      a.shape.width % kPack == 0 && a.row_stride % kPack == 0 && fits_pack(a.table, kPack * sizeof(Table));
  return packed ? launch_rows<kPack, Table>(a, entries, sums, partials, stream)
                : launch_rows<1, Table>(a, entries, sums, partials, stream);
}

template <typename Out, typename Entries, typename Compute>
cudaError_t combine(const BankArguments& a,
                    const Entries& entries,
                    const Compute* sums,
                    const Compute* partials,
                    cudaStream_t stream) {
  const BankCombineKernel<Entries, Out, Compute> kernel{entries,
                                                        sums,
                                                        partials,
                                                        static_cast<const Compute*>(a.scale),
                                                        static_cast<Out*>(a.out),
                                                        std::numeric_limits<Compute>::lowest(),
                                                        std::numeric_limits<Compute>::quiet_NaN()};
  return launch(kernel, stream);
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
  const BankLargestKernel<Compute> largest{a.shape, a.lengths, static_cast<const Compute*>(a.largest),
                                           static_cast<Compute*>(pieces.largest),
                                           std::numeric_limits<Compute>::lowest()};
  if (const cudaError_t status = launch(largest, stream); status != cudaSuccess) {
    return status;
  }
  const BankSegmentKernel segments{a.shape.batch, a.shape.table_rows, pieces.distinct, pieces.count,
                                   pieces.segment_of_sequence};
  if (const cudaError_t status = launch(segments, stream); status != cudaSuccess) {
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
  return launch(BankKeyKernel{a.shape, a.ids, a.lengths, keys}, stream);
}

}  // namespace bov::kernels
