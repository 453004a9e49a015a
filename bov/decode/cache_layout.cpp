#include "bov/decode/cache_layout.h"

#include <algorithm>

namespace bov {
namespace {

constexpr int64_t kSlotBlock = 256;
constexpr int64_t kGrowth = 8;

int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
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
  if (vocab_size <= int64_t{1} << 15) return torch::kInt16;
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

CacheBytes cache_bytes(const CacheLayout& layout, int64_t length, int64_t batch) {
  const auto size_of = [](torch::Dtype dtype) { return static_cast<int64_t>(c10::elementSize(dtype)); };
  const int64_t vector_bytes = layout.n_kv_head * layout.head_dim * size_of(layout.dtype);
  CacheBytes bytes;
  for (const CacheKey& key : cache_keys(layout)) {
    const bool vectors = key.kind == CacheKey::Kind::keys || key.kind == CacheKey::Kind::values;
    const int64_t entry = vectors ? vector_bytes : size_of(id_dtype(layout.vocab_size));
    bytes.add(key.kind, batch * cache_capacity(length, key.limit) * entry);
  }
  return bytes;
}

}  // namespace bov
