#pragma once

#include <optional>

#include "bov/decode/cache_layout.h"

/// What decoding takes in memory with a V cache and without, from options alone (arXiv 2606.02780, Eq. 6 and Figure 5a).
namespace bov {

/// Bytes for `batch` sequences of `context` tokens each. Caches that decoding allocates are counted as allocated, growth
/// in blocks included; those of other programs to the position. decode_memory throws c10::Error for a context or a batch
/// below 1, or too large to be counted.
struct BOV_API DecodeMemory {
  CacheBytes cache;  ///< this model's DecodeState
  CacheBytes
      with_values;  ///< the same windows if every layer kept its values: a V cache that respects windows
  int64_t plain_keys =
      0;  ///< every layer keeps every position, whatever its window, as the published code does
  int64_t plain_values = 0;  ///< the same of values
  int64_t tables = 0;        ///< E_V of all layers, in table dtype: device store
  int64_t tables_int8 = 0;   ///< the same as int8 rows with a float32 scale each
  int64_t rows_seen = 0;     ///< rows that a host store keeps on the device, at most: every token another id
};
/// The estimate of a model with `options`. Throws c10::Error for a context or batch below 1.
BOV_API DecodeMemory decode_memory(const GPTOptions& options,
                                   LongWindow long_window,
                                   int64_t context,
                                   int64_t batch);

/// Eq. 6, for any target layers, batch and width of values: elements of a V cache that keeps every position that are
/// saved, less those of the tables, n·W·B·T - tables·W·|V|. (L/3)·d·(T - |V|) for the paper's models. Throws as
/// decode_memory.
BOV_API int64_t saved_elements(const GPTOptions& options, int64_t context, int64_t batch);

/// Figure 5a: the same as a fraction of the whole K and V cache of all layers, which keeps every position. Throws as
/// decode_memory.
BOV_API double saved_fraction(const GPTOptions& options, int64_t context, int64_t batch);

/// Contexts in tokens, both ends included; without `last` however long.
struct BOV_API ContextRange {
  int64_t first = 0;                                     ///< shortest
  std::optional<int64_t> last;                           ///< longest
  bool operator==(const ContextRange&) const = default;  ///< member by member
};

/// Where `batch` sequences take less memory with tables and token ids than with the values in their place: the first range of
/// contexts up to kLongestContext, counted to the position. Empty: nowhere.
struct BOV_API BreakEven {
  std::optional<ContextRange> plain;  ///< device tables, against a V cache that keeps every position
  /// Against one that respects windows, with the tables
  std::optional<ContextRange> device;  ///< in the device's memory
  std::optional<ContextRange> int8;    ///< the same as int8 rows
  std::optional<ContextRange> host;    ///< on the host; every token brings another row to the device
  std::optional<ContextRange> file;    ///< in the file, so that ids alone take memory
  /// Fewest sequences with which `device` is not empty.
  std::optional<int64_t> device_batch;
};
/// Longest context that break_even looks at.
inline constexpr int64_t kLongestContext = int64_t{1} << 32;

/// Of a model with `options` that decodes `batch` sequences at once. Throws c10::Error as GPTOptions::validate(), and for a
/// batch below 1.
BOV_API BreakEven break_even(const GPTOptions& options, LongWindow long_window, int64_t batch);

}  // namespace bov
