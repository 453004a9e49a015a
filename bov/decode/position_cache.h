#pragma once

#include <torch/types.h>

#include <vector>

#include "bov/export.h"

namespace bov {

/// Where the tokens of one pass go in the caches of one window, and where its queries find the keys that they see. It
/// is made once a pass for each window and serves keys, values and row numbers alike.
class BOV_API SlotPlan {
 public:
  /// Sequences of `lengths` tokens, of which there is at least one, get `new_tokens` more each, 1 or more; a cache keeps at
  /// most `limit` positions and has `capacity` slots a sequence. Sizes are not checked: Decoder and DecodeState do.
  SlotPlan(const std::vector<int64_t>& lengths,
           int64_t new_tokens,
           int64_t limit,
           int64_t capacity,
           torch::Device device);

  /// Slots of each sequence that the pass sees, S.
  int64_t view_slots() const { return view_slots_; }
  /// Of these, how many hold keys: the last query of sequence b sees slots below [b]. [B] int64, on the device.
  const torch::Tensor& view_lengths() const { return view_lengths_; }
  /// The same on the host.
  const std::vector<int64_t>& host_view_lengths() const { return host_view_lengths_; }

 private:
  friend class PositionCache;
  void plan_writes(const std::vector<int64_t>& lengths);
  void plan_assembly(const std::vector<int64_t>& lengths);

  int64_t new_tokens_;
  int64_t limit_;
  int64_t capacity_;  // slots a sequence that the pass needs
  bool overwrites_;   // a key that an early query of the pass sees gives way to a later token of the pass
  int64_t first_written_;  // of the new tokens; those before it are out of reach afterwards
  int64_t view_slots_ = 0;
  std::vector<int64_t> host_view_lengths_;
  torch::Device device_;
  torch::Tensor view_lengths_;
  torch::Tensor write_slots_;     // [B · written], in the cache flattened to [B · capacity]
  torch::Tensor assembly_slots_;  // [B · S], in [B · (capacity + new_tokens)]; undefined unless overwrites_
};

/// One thing that is kept of past positions, [B, slots, ...]: position p of a sequence lies in slot p mod `limit`. Until
/// that many slots exist it grows; from then on it is a ring.
class BOV_API PositionCache {
 public:
  /// `row_shape` is the shape of one position's entry. Throws c10::Error, LibTorch's, for a negative size.
  PositionCache(int64_t batch,
                int64_t limit,
                std::vector<int64_t> row_shape,
                const torch::TensorOptions& options);

  /// Slots of each sequence.
  int64_t capacity() const { return slots_.size(1); }
  /// Memory of all slots.
  int64_t bytes() const { return static_cast<int64_t>(slots_.nbytes()); }

  /// Stores rows [B, new tokens, ...] and returns what the pass sees: [B, S, ...], of which sequence b uses the first
  /// view_lengths[b], in the order of their positions unless the pass is of one token. It may share the cache's memory.
  /// Throws c10::Error, LibTorch's, for rows of another shape than the cache's.
  torch::Tensor append(const torch::Tensor& rows, const SlotPlan& plan);

  /// Entries of `positions` [B, n] int64 -> [B, n, ...] in the cache's dtype. That the cache still keeps each of them is
  /// not checked; throws c10::Error, LibTorch's, for another shape.
  torch::Tensor at(const torch::Tensor& positions) const;

  /// Copies of the sequences [n] int64, in that order. Throws c10::Error, LibTorch's, for one out of range.
  PositionCache select(const torch::Tensor& sequences) const;
  /// The sequences of all caches, one or more, which differ in their slots at most. Throws c10::Error, LibTorch's, if their
  /// entries have other shapes.
  static PositionCache join(const std::vector<const PositionCache*>& caches);

 private:
  void grow(int64_t capacity);

  int64_t limit_;
  torch::Dtype dtype_;   // of what is stored and given back
  torch::Tensor slots_;  // of the same element size
};

}  // namespace bov
