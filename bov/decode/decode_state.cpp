#include "bov/decode/decode_state.h"

#include <algorithm>
#include <numeric>

#include "bov/model/token_ids.h"

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
  TORCH_CHECK(sequence >= 0 && sequence < batch(), "DecodeState::token_ids: sequence is ", sequence,
              "; expected one in [0, ", batch(), ")");
  const torch::Tensor positions =
      torch::arange(lengths_[sequence], torch::TensorOptions(torch::kInt64).device(device_));
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
DecodeState DecodeState::with_sequences(std::vector<int64_t> lengths,
                                        std::vector<int64_t> longest,
                                        const Make& make) const {
  DecodeState state(layout_, static_cast<int64_t>(lengths.size()), device_);
  state.lengths_ = std::move(lengths);
  state.longest_ = std::move(longest);
  for (auto& [key, cache] : state.caches_) cache = make(key);
  return state;
}

DecodeState DecodeState::select(const std::vector<int64_t>& sequences) const {
  TORCH_CHECK(!sequences.empty(), "DecodeState::select: no sequence is named; expected 1 or more");
  std::vector<int64_t> lengths, longest;
  for (const int64_t sequence : sequences) {
    TORCH_CHECK(sequence >= 0 && sequence < batch(), "DecodeState::select: sequence ", sequence,
                " is named; expected one in [0, ", batch(), ")");
    lengths.push_back(lengths_[sequence]);
    longest.push_back(longest_[sequence]);
  }
  const torch::Tensor index = torch::tensor(sequences, torch::kInt64).to(device_);
  return with_sequences(std::move(lengths), std::move(longest),
                        [&](const CacheKey& key) { return caches_.at(key).select(index); });
}

DecodeState DecodeState::clone() const {
  std::vector<int64_t> all(lengths_.size());
  std::iota(all.begin(), all.end(), 0);
  return select(all);
}

DecodeState DecodeState::join(const std::vector<DecodeState>& states) {
  TORCH_CHECK(!states.empty(), "DecodeState::join: no state is given; expected 1 or more");
  const DecodeState& first = states.front();
  std::vector<int64_t> lengths, longest;
  for (const DecodeState& state : states) {
    TORCH_CHECK(state.layout_ == first.layout_ && state.device_ == first.device_,
                "DecodeState::join: the states are of different models, windows or devices");
    lengths.insert(lengths.end(), state.lengths_.begin(), state.lengths_.end());
    longest.insert(longest.end(), state.longest_.begin(), state.longest_.end());
  }
  return first.with_sequences(std::move(lengths), std::move(longest), [&](const CacheKey& key) {
    std::vector<const PositionCache*> parts;
    for (const DecodeState& state : states) parts.push_back(&state.caches_.at(key));
    return PositionCache::join(parts);
  });
}

void DecodeState::append(const torch::Tensor& token_ids,
                         const std::function<torch::Tensor(const CacheKey&)>& rows) {
  TORCH_CHECK(token_ids.dim() == 2 && token_ids.size(0) == batch() && token_ids.size(1) >= 1,
              "DecodeState::append: token_ids must be [", batch(), ", 1 or more], got ", token_ids.sizes());
  check_token_ids("DecodeState::append", token_ids, layout_.vocab_size);
  const int64_t tokens = token_ids.size(1);
  std::map<CacheKey, torch::Tensor> added;
  for (const auto& [key, cache] : caches_) {
    const bool vectors = key.kind == CacheKey::Kind::keys || key.kind == CacheKey::Kind::values;
    std::vector<int64_t> shape{batch(), tokens};
    if (vectors) shape.insert(shape.end(), {layout_.n_kv_head, layout_.head_dim});
    const torch::Tensor& given = added[key] = key == kHistoryCache ? token_ids : rows(key);
    TORCH_CHECK(given.sizes() == shape, "DecodeState::append: rows of layer ", key.layer, " are ",
                given.sizes(), "; expected ", torch::IntArrayRef(shape));
  }
  for (auto& [key, cache] : caches_) {
    cache.append(added.at(key), SlotPlan(lengths_, tokens, key.limit, cache.capacity(), device_));
  }
  lengthen(tokens);
}

void DecodeState::lengthen(int64_t tokens) {
  for (size_t i = 0; i < lengths_.size(); ++i) {
    lengths_[i] += tokens;
    longest_[i] = std::max(longest_[i], lengths_[i]);
  }
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
