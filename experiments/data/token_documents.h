#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "experiments/data/token_shard.h"

namespace bov::experiments {

/// The documents of several shards as one list, in the order they were written. Cutting the same documents
/// into more or fewer shards changes nothing here.
class TokenDocuments {
 public:
  explicit TokenDocuments(std::vector<TokenShard> shards);

  int64_t size() const { return first_.back(); }
  int64_t tokens() const { return tokens_; }  ///< bos not counted
  int64_t text_bytes() const { return text_bytes_; }
  /// Tokens of document `index`, bos not counted.
  int64_t length(int64_t index) const;
  /// Writes tokens [offset, offset + out.size()) of document `index` to `out`.
  void copy(int64_t index, int64_t offset, std::span<int32_t> out) const;
  const std::vector<TokenShard>& shards() const { return shards_; }

 private:
  size_t shard_of(int64_t index) const;

  std::vector<TokenShard> shards_;
  std::vector<int64_t> first_;  // first document of each shard, then the total
  int64_t tokens_ = 0;
  int64_t text_bytes_ = 0;
};

}  // namespace bov::experiments
