#include "experiments/data/token_documents.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace bov::experiments {

TokenDocuments::TokenDocuments(std::vector<TokenShard> shards) : shards_(std::move(shards)), first_{0} {
  for (const TokenShard& shard : shards_) {
    first_.push_back(first_.back() + shard.documents());
    tokens_ += shard.info().tokens;
    text_bytes_ += shard.info().text_bytes;
  }
}

size_t TokenDocuments::shard_of(int64_t index) const {
  if (index < 0 || index >= size()) {
    throw std::out_of_range("document " + std::to_string(index) + " of " + std::to_string(size()));
  }
  return static_cast<size_t>(std::upper_bound(first_.begin(), first_.end(), index) - first_.begin() - 1);
}

int64_t TokenDocuments::length(int64_t index) const {
  const size_t shard = shard_of(index);
  return shards_[shard].length(index - first_[shard]);
}

void TokenDocuments::copy(int64_t index, int64_t offset, std::span<int32_t> out) const {
  const size_t shard = shard_of(index);
  shards_[shard].copy(index - first_[shard], offset, out);
}

}  // namespace bov::experiments
