#pragma once

#include <torch/types.h>

#include <compare>
#include <limits>
#include <set>
#include <vector>

#include "bov/model/gpt_options.h"
#include "bov/value/value_sources.h"

/// What decoding keeps of past tokens, from options alone: DecodeState allocates it and its size is known beforehand.
namespace bov {

/// Reach of "L" windows: `trained` is GPTOptions::sequence_length, as in training; `unlimited` sees every past token.
enum class LongWindow { trained, unlimited };

/// Left reach that no sequence exceeds.
inline constexpr int64_t kUnlimitedReach = std::numeric_limits<int64_t>::max() / 2;

/// One layer: its queries see `left` earlier positions and themselves.
struct BOV_API LayerCache {
  int64_t left = 0;                                  ///< positions before the query's own
  ValueCacheNeed need = ValueCacheNeed::own_values;  ///< what is kept for its values

  /// Positions that are kept at most; from then on a new one takes the place of the oldest.
  int64_t limit() const { return left + 1; }
  bool operator==(const LayerCache&) const = default;  ///< member by member
};

/// All layers and the sizes of an entry.
struct BOV_API CacheLayout {
  std::vector<LayerCache> layers;        ///< one a layer of the model
  int64_t n_kv_head = 0;                 ///< Hkv
  int64_t head_dim = 0;                  ///< D
  int64_t vocab_size = 0;                ///< decides the dtype of ids
  torch::Dtype dtype = torch::kFloat32;  ///< of keys and values

  bool operator==(const CacheLayout&) const = default;  ///< member by member
};

/// The layout of a model with `options`. Throws c10::Error as GPTOptions::validate().
BOV_API CacheLayout cache_layout(const GPTOptions& options, LongWindow long_window);

/// What one cache holds. Layers share a cache wherever their keys are equal.
struct BOV_API CacheKey {
  /// What the entries are.
  enum class Kind {
    history,      ///< token ids
    keys,         ///< of `layer`
    values,       ///< made by `layer`, read by layers with this limit
    row_numbers,  ///< of a bank's rows, for all layers with this limit
  };
  Kind kind = Kind::history;                          ///< what the entries are
  int64_t layer = 0;                                  ///< 0 for history and row numbers
  int64_t limit = 0;                                  ///< positions kept at most
  auto operator<=>(const CacheKey&) const = default;  ///< by kind, layer, limit
};

/// Of the keys of layer `layer`.
BOV_API CacheKey key_cache(const CacheLayout& layout, int64_t layer);
/// Of the values of layer `layer`; of row numbers in their place where the layer needs token ids alone.
BOV_API CacheKey value_cache(const CacheLayout& layout, int64_t layer);
/// All tokens that were seen.
inline constexpr CacheKey kHistoryCache{CacheKey::Kind::history, 0, kUnlimitedReach};

/// Every cache that decoding needs, each once.
BOV_API std::set<CacheKey> cache_keys(const CacheLayout& layout);

/// Smallest of uint8, uint16, int32 and int64 that holds ids below `vocab_size`.
BOV_API torch::Dtype id_dtype(int64_t vocab_size);

/// Slots that a cache of at most `limit` positions has for `length` of them: it grows by an eighth, in multiples of 256,
/// so that a long context is not allocated up front and appending costs a constant time on average.
BOV_API int64_t cache_capacity(int64_t length, int64_t limit);

/// Bytes by part.
struct BOV_API CacheBytes {
  int64_t keys = 0;       ///< of all layers
  int64_t values = 0;     ///< of the layers that keep values
  int64_t token_ids = 0;  ///< the history, and for each window the row numbers that its bank layers read

  /// Sum of the parts.
  int64_t total() const { return keys + values + token_ids; }
  /// Counts `bytes` of a cache of this kind.
  void add(CacheKey::Kind kind, int64_t bytes);
  bool operator==(const CacheBytes&) const = default;  ///< member by member
};

/// Throws c10::Error, naming the numbers, unless the keys and values of all layers, every position of `batch` sequences of
/// `length` tokens, can be counted: fewer than 2^62 bytes.
BOV_API void check_countable(const CacheLayout& layout, int64_t length, int64_t batch);

/// What a DecodeState of `batch` sequences allocates, the longest of them `length` tokens long. It equals
/// DecodeState::bytes(). Throws as check_countable.
BOV_API CacheBytes cache_bytes(const CacheLayout& layout, int64_t length, int64_t batch);

}  // namespace bov
