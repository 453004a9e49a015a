#pragma once

#include <functional>
#include <map>
#include <vector>

#include "bov/decode/cache_layout.h"
#include "bov/decode/position_cache.h"

namespace bov {

/// What decoding remembers of a batch of sequences, each of its own length: keys of every layer, values only of layers
/// that need them kept, token ids of the rest. A layer with a window keeps the positions that the window reaches and no
/// more. A Decoder reads it and makes it longer. It can be moved; clone() and select() copy it with its memory.
class BOV_API DecodeState {
 public:
  /// `batch` sequences without a token. Nothing but a few bytes is allocated. Throws c10::Error for a batch below 1.
  DecodeState(CacheLayout layout, int64_t batch, torch::Device device);
  DecodeState(DecodeState&&) = default;             ///< the other may only be destroyed or assigned to
  DecodeState& operator=(DecodeState&&) = default;  ///< as above
  // A copy would share the memory that both go on to write.
  DecodeState(const DecodeState&) = delete;
  DecodeState& operator=(const DecodeState&) = delete;
  ~DecodeState() = default;

  /// B, sequences.
  int64_t batch() const { return static_cast<int64_t>(lengths_.size()); }
  /// Tokens of each sequence.
  const std::vector<int64_t>& lengths() const { return lengths_; }
  /// What is kept for each layer.
  const CacheLayout& layout() const { return layout_; }

  /// Tokens of one sequence so far, [length] int64. Throws c10::Error for a sequence outside [0, batch()).
  torch::Tensor token_ids(int64_t sequence) const;

  /// Copies of the named sequences, in that order: {0, 0, 0} forks a prompt, {0, 2} drops sequence 1. Throws c10::Error
  /// naming an index out of range, or if there is none.
  DecodeState select(const std::vector<int64_t>& sequences) const;
  /// A copy that shares no memory.
  DecodeState clone() const;
  /// All sequences of `states` in one batch. Throws c10::Error if there is none or their layouts or devices differ.
  static DecodeState join(const std::vector<DecodeState>& states);

  /// Makes every sequence longer by tokens that were read elsewhere, as from a store of prompts: token_ids [B, T] int64, T >=
  /// 1, and for each other cache what `rows` gives for its key. Keys are rotated, [B, T, Hkv, D] as values are; row numbers
  /// are [B, T], those that the decoder's BankStore gives. Throws c10::Error for another shape: the state is then as it was.
  void append(const torch::Tensor& token_ids, const std::function<torch::Tensor(const CacheKey&)>& rows);

  /// Forgets all but the first `length` tokens of a sequence. Throws c10::Error for a sequence or a length out of range. A
  /// window that has begun to overwrite cannot give positions
  /// back: once a sequence is longer than the smallest window's limit, only its newest token can be taken back, which
  /// throws c10::Error naming the lengths otherwise. Fork before going on, where more must be undone.
  void truncate(int64_t sequence, int64_t length);

  /// Bytes allocated, by part. Equal to cache_bytes(layout, longest length, batch) unless sequences were cut or dropped.
  CacheBytes bytes() const;

 private:
  friend class Decoder;
  /// A state of the same layout of sequences of other lengths, whose caches `make` gives by their keys.
  template <typename Make>
  DecodeState with_sequences(std::vector<int64_t> lengths,
                             std::vector<int64_t> longest,
                             const Make& make) const;
  void lengthen(int64_t tokens);
  /// Last token of each sequence [B, 1] int64, 0 for an empty one.
  torch::Tensor last_token_ids() const;

  CacheLayout layout_;
  torch::Device device_;
  std::vector<int64_t> lengths_;
  std::vector<int64_t> longest_;  // that each sequence has been: how far rings have overwritten
  std::map<CacheKey, PositionCache> caches_;
};

}  // namespace bov
