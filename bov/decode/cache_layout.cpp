#include "bov/decode/cache_layout.h"

#include <algorithm>

namespace bov {
namespace {

constexpr int64_t kSlotBlock = 256;
constexpr int64_t kGrowth = 8;

int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

int64_t size_of(torch::Dtype dtype) {
  return static_cast<int64_t>(c10::elementSize(dtype));
}

/// A key or a value of one position and layer.
int64_t vector_bytes(const CacheLayout& layout) {
  return layout.n_kv_head * layout.head_dim * size_of(layout.dtype);
}

}  // namespace

CacheLayout cache_layout(const GPTOptions& options, LongWindow long_window) {
  options.validate();
  CacheLayout layout;
  layout.n_kv_head = options.n_kv_head;
  layout.head_dim = options.head_dim();
  layout.vocab_size = options.vocab_size;
  layout.dtype = options.compute_dtype;
  const std::vector<int64_t> targets = target_layers(options.value, options.n_layer);
  const std::vector<int64_t> left = options.window_left();
  for (int64_t layer = 0; layer < options.n_layer; ++layer) {
    const bool unlimited = long_window == LongWindow::unlimited && left[layer] >= options.sequence_length;
    const bool target = std::binary_search(targets.begin(), targets.end(), layer);
    layout.layers.push_back({unlimited ? kUnlimitedReach : left[layer],
                             target ? value_cache_need(options.value) : ValueCacheNeed::own_values});
  }
  return layout;
}

torch::Dtype id_dtype(int64_t vocab_size) {
  if (vocab_size <= int64_t{1} << 8) return torch::kUInt8;
  if (vocab_size <= int64_t{1} << 16) return torch::kUInt16;
  return vocab_size <= int64_t{1} << 31 ? torch::kInt32 : torch::kInt64;
}

int64_t cache_capacity(int64_t length, int64_t limit) {
  int64_t capacity = 0;
  while (capacity < std::min(length, limit)) {
    capacity += std::max(kSlotBlock, round_up(capacity / kGrowth, kSlotBlock));
  }
  return std::min(capacity, limit);
}

CacheKey key_cache(const CacheLayout& layout, int64_t layer) {
  return {CacheKey::Kind::keys, layer, layout.layers[layer].limit()};
}

CacheKey value_cache(const CacheLayout& layout, int64_t layer) {
  const LayerCache& cache = layout.layers[layer];
  switch (cache.need) {
    case ValueCacheNeed::token_ids:
      return {CacheKey::Kind::row_numbers, 0, cache.limit()};
    case ValueCacheNeed::first_layer_values:
      return {CacheKey::Kind::values, 0, cache.limit()};
    case ValueCacheNeed::own_values:
      break;
  }
  return {CacheKey::Kind::values, layer, cache.limit()};
}

std::set<CacheKey> cache_keys(const CacheLayout& layout) {
  std::set<CacheKey> keys{kHistoryCache};
  for (int64_t layer = 0; layer < static_cast<int64_t>(layout.layers.size()); ++layer) {
    keys.insert(key_cache(layout, layer));
    keys.insert(value_cache(layout, layer));
  }
  return keys;
}

void CacheBytes::add(CacheKey::Kind kind, int64_t bytes) {
  switch (kind) {
    case CacheKey::Kind::keys:
      keys += bytes;
      return;
    case CacheKey::Kind::values:
      values += bytes;
      return;
    case CacheKey::Kind::history:
    case CacheKey::Kind::row_numbers:
      token_ids += bytes;
      return;
  }
}

void check_countable(const CacheLayout& layout, int64_t length, int64_t batch) {
  const double positions =
      static_cast<double>(layout.layers.size()) * static_cast<double>(batch) * static_cast<double>(length);
  // Keys and values, and an id for each; a factor of two covers what a cache has beyond its length.
  const double bytes = 2 * positions * (2.0 * static_cast<double>(vector_bytes(layout)) + 16);
  TORCH_CHECK(bytes < 0x1p62, "the caches of ", batch, " sequences of ", length, " tokens in ",
              layout.layers.size(), " layers are too large to be counted; expected fewer than 2^62 bytes");
}

CacheBytes cache_bytes(const CacheLayout& layout, int64_t length, int64_t batch) {
  check_countable(layout, length, batch);
  CacheBytes bytes;
  for (const CacheKey& key : cache_keys(layout)) {
    const bool vectors = key.kind == CacheKey::Kind::keys || key.kind == CacheKey::Kind::values;
    const int64_t entry = vectors ? vector_bytes(layout) : size_of(id_dtype(layout.vocab_size));
    bytes.add(key.kind, batch * cache_capacity(length, key.limit) * entry);
  }
  return bytes;
}

}  // namespace bov
