#include "bov/decode/decode_state.h"

#include <algorithm>
#include <numeric>

namespace bov {
namespace {

PositionCache make_cache(const CacheLayout& layout,
                         const CacheKey& key,
                         int64_t batch,
                         torch::Device device) {
  const bool vectors = key.kind == CacheKey::Kind::keys || key.kind == CacheKey::Kind::values;
  const auto options =
      torch::TensorOptions(vectors ? layout.dtype : id_dtype(layout.vocab_size)).device(device);
  const std::vector<int64_t> shape =
      vectors ? std::vector<int64_t>{layout.n_kv_head, layout.head_dim} : std::vector<int64_t>{};
  return PositionCache(batch, key.limit, shape, options);
}

}  // namespace

DecodeState::DecodeState(CacheLayout layout, int64_t batch, torch::Device device)
    : layout_(std::move(layout)), device_(device) {
  TORCH_CHECK(batch >= 1, "DecodeState: batch is ", batch, "; expected 1 or more");
  lengths_.assign(batch, 0);
  longest_.assign(batch, 0);
  for (const CacheKey& key : cache_keys(layout_)) {
    caches_.emplace(key, make_cache(layout_, key, batch, device_));
  }
}

torch::Tensor DecodeState::token_ids(int64_t sequence) const {
  const torch::Tensor positions =
      torch::arange(lengths_.at(sequence), torch::TensorOptions(torch::kInt64).device(device_));
  return caches_.at(kHistoryCache).at(positions.expand({batch(), -1}))[sequence].to(torch::kInt64);
}

torch::Tensor DecodeState::last_token_ids() const {
  std::vector<int64_t> positions;
  for (const int64_t length : lengths_) positions.push_back(std::max<int64_t>(0, length - 1));
  if (caches_.at(kHistoryCache).capacity() == 0) {
    return torch::zeros({batch(), 1}, torch::TensorOptions(torch::kInt64).device(device_));
  }
  const torch::Tensor index = torch::tensor(positions, torch::kInt64).to(device_).unsqueeze(1);
  return caches_.at(kHistoryCache).at(index).to(torch::kInt64);
}

template <typename Make>
DecodeState DecodeState::with_caches(const Make& make) const {
  DecodeState state = *this;
  for (auto& [key, cache] : state.caches_) cache = make(key);
  return state;
}

DecodeState DecodeState::select(const std::vector<int64_t>& sequences) const {
  TORCH_CHECK(!sequences.empty(), "DecodeState::select: no sequence is named; expected 1 or more");
  for (const int64_t sequence : sequences) {
    TORCH_CHECK(sequence >= 0 && sequence < batch(), "DecodeState::select: sequence ", sequence,
                " is named; expected one in [0, ", batch(), ")");
  }
  const torch::Tensor index = torch::tensor(sequences, torch::kInt64).to(device_);
  DecodeState state = with_caches([&](const CacheKey& key) { return caches_.at(key).select(index); });
  state.lengths_.clear();
  state.longest_.clear();
  for (const int64_t sequence : sequences) {
    state.lengths_.push_back(lengths_[sequence]);
    state.longest_.push_back(longest_[sequence]);
  }
  return state;
}

DecodeState DecodeState::clone() const {
  std::vector<int64_t> all(lengths_.size());
  std::iota(all.begin(), all.end(), 0);
  return select(all);
}

DecodeState DecodeState::join(const std::vector<DecodeState>& states) {
  TORCH_CHECK(!states.empty(), "DecodeState::join: no state is given; expected 1 or more");
  const DecodeState& first = states.front();
  for (const DecodeState& state : states) {
    TORCH_CHECK(state.layout_ == first.layout_ && state.device_ == first.device_,
                "DecodeState::join: the states are of different models, windows or devices");
  }
  DecodeState joined = first.with_caches([&](const CacheKey& key) {
    std::vector<const PositionCache*> parts;
    for (const DecodeState& state : states) parts.push_back(&state.caches_.at(key));
    return PositionCache::join(parts);
  });
  joined.lengths_.clear();
  joined.longest_.clear();
  for (const DecodeState& state : states) {
    joined.lengths_.insert(joined.lengths_.end(), state.lengths_.begin(), state.lengths_.end());
    joined.longest_.insert(joined.longest_.end(), state.longest_.begin(), state.longest_.end());
  }
  return joined;
}

void DecodeState::truncate(int64_t sequence, int64_t length) {
  TORCH_CHECK(sequence >= 0 && sequence < batch(), "DecodeState::truncate: sequence is ", sequence,
              "; expected one in [0, ", batch(), ")");
  TORCH_CHECK(length >= 0 && length <= lengths_[sequence], "DecodeState::truncate: length is ", length,
              "; expected at most the ", lengths_[sequence], " tokens of sequence ", sequence);
  const int64_t longest = longest_[sequence];
  for (const LayerCache& layer : layout_.layers) {
    // A ring holds positions from longest - limit on; the next query needs those from length - left on.
    TORCH_CHECK(longest <= layer.limit() || length >= longest - 1, "DecodeState::truncate: sequence ",
                sequence, " has been ", longest, " tokens long, so a window of ", layer.limit(),
                " positions has overwritten what length ", length, " needs; expected at least ", longest - 1);
  }
  lengths_[sequence] = length;
}

CacheBytes DecodeState::bytes() const {
  CacheBytes bytes;
  for (const auto& [key, cache] : caches_) bytes.add(key.kind, cache.bytes());
  return bytes;
}

}  // namespace bov
