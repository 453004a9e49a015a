#pragma once

#include <cmath>

#include "csrc/kernels/bank_attention_layout.h"
#include "csrc/kernels/launch.h"

/// Scores of bank_attention (kernels, see launch.h).
namespace bov::kernels {

/// The largest of a warp's values, in every lane.
template <typename Thread, typename Compute>
BOV_HOST_DEVICE Compute warp_max(const Thread& thread, Compute value) {
  for (int mask = 16; mask > 0; mask /= 2) {
    const Compute other = thread.shuffle_xor(value, mask);
    value = other > value ? other : value;
  }
  return value;
}

/// One block: a split (x) of one key head (y) and sequence (z).
template <int V, typename Key, typename Compute>
struct BankScoreKernel {
  static constexpr int kThreads = 256;
  BankShape shape;
  const int64_t* lengths;  ///< [batch]
  const Key* keys;
  int64_t batch_stride, slot_stride, head_stride;
  const Compute* queries;  ///< [batch, queries, heads, width]
  Compute query_scale;
  Compute* scores;   ///< [batch, capacity, rows] out
  Compute* largest;  ///< [batch, splits, rows] out: of each split
  Compute lowest;    ///< the lowest finite number

  LaunchSize size() const { return {shape.splits(), shape.key_heads, shape.batch, kThreads}; }

  template <typename Thread>
  BOV_HOST_DEVICE void operator()(const Thread& thread) const {
    constexpr int kInFlight = 4;  // key vectors that are loaded before the first is used
    const int64_t head = thread.block_y();
    const int64_t b = thread.block_z();
    const BankView view = bank_view(shape, lengths[b]);
    const int64_t begin = thread.block_x() * shape.split();
    const int64_t end = begin + shape.split() < view.count ? begin + shape.split() : view.count;
    if (begin >= end) {
      return;
    }
    const int64_t packs = shape.width / V;
    const int lanes = key_lanes(packs);
    const int lane = thread.index() % lanes;
    const int64_t teams = thread.count() / lanes;
    const int64_t first_row = head * shape.group();
    const Key* first_key = keys + b * batch_stride + head * head_stride + view.first * slot_stride;
    Compute* scores_of_view = scores + b * shape.capacity() * shape.rows();

    // All threads go round equally often: a warp's lanes add up together, whatever teams they belong to.
    for (int64_t base = begin; base < end; base += kInFlight * teams) {
      const int64_t slot = base + thread.index() / lanes;
      for (int64_t row = first_row; row < first_row + shape.group(); ++row) {
        const Compute* query = queries + shape.offset(b, row);
        Compute sums[kInFlight] = {};
        for (int64_t pack = lane; pack < packs; pack += lanes) {
          Pack<Key, V> key[kInFlight];
          for (int i = 0; i < kInFlight; ++i) {
            if (slot + i * teams < end) {
              key[i] = load_pack<Key, V>(first_key + (slot + i * teams) * slot_stride + pack * V);
            }
          }
          for (int j = 0; j < V; ++j) {
            const Compute factor = query[pack * V + j];
            for (int i = 0; i < kInFlight; ++i) {
              if (slot + i * teams < end) {
                sums[i] += element_cast<Compute>(key[i].element[j]) * factor;
              }
            }
          }
        }
        for (int i = 0; i < kInFlight; ++i) {
          for (int mask = lanes / 2; mask > 0; mask /= 2) {
            sums[i] += thread.shuffle_xor(sums[i], mask);
          }
          const int64_t mine = slot + i * teams;
          if (lane == 0 && mine < end) {
            scores_of_view[mine * shape.rows() + row] =
                sees(shape, view, row, mine) ? sums[i] * query_scale : -INFINITY;
          }
        }
      }
    }

    thread.sync();
    const int warps = thread.count() / 32;
    for (int64_t i = thread.index() / 32; i < shape.group(); i += warps) {
      Compute found = lowest;
      for (int64_t slot = begin + thread.index() % 32; slot < end; slot += 32) {
        const Compute score = scores_of_view[slot * shape.rows() + first_row + i];
        found = score > found ? score : found;
      }
      found = warp_max(thread, found);
      if (thread.index() % 32 == 0) {
        largest[(b * shape.splits() + thread.block_x()) * shape.rows() + first_row + i] = found;
      }
    }
  }
};

/// One warp: the largest score of one row (x) of a sequence (z).
template <typename Compute>
struct BankLargestKernel {
  BankShape shape;
  const int64_t* lengths;
  const Compute* of_splits;  ///< [batch, splits, rows]
  Compute* largest;          ///< [batch, rows] out
  Compute lowest;

  LaunchSize size() const { return {shape.rows(), 1, shape.batch, 32}; }

  template <typename Thread>
  BOV_HOST_DEVICE void operator()(const Thread& thread) const {
    const int64_t b = thread.block_z();
    const int64_t used = ceil_div(bank_view(shape, lengths[b]).count, shape.split());
    Compute found = lowest;
    for (int64_t split = thread.index(); split < used; split += 32) {
      const Compute score = of_splits[(b * shape.splits() + split) * shape.rows() + thread.block_x()];
      found = score > found ? score : found;
    }
    found = warp_max(thread, found);
    if (thread.index() == 0) {
      largest[b * shape.rows() + thread.block_x()] = found;
    }
  }
};

}  // namespace bov::kernels
