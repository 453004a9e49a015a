#include "experiments/data/token_shard_writer.h"

#include <cstring>
#include <stdexcept>
#include <string>

#include "bov/io/atomic_file.h"
#include "experiments/data/shard_format.h"

namespace bov::experiments {

TokenShardWriter::TokenShardWriter(int32_t vocab_size, int32_t bos, uint64_t tokenizer_hash) {
  info_.token_size = vocab_size <= 65536 ? 2 : 4;
  info_.vocab_size = vocab_size;
  info_.bos = bos;
  info_.tokenizer_hash = tokenizer_hash;
}

void TokenShardWriter::add(std::span<const int32_t> tokens, int64_t text_bytes) {
  if (tokens.empty()) throw std::invalid_argument("a shard holds no empty documents");
  const size_t before = tokens_.size();
  tokens_.resize(before + tokens.size() * info_.token_size);
  std::byte* out = tokens_.data() + before;
  for (const int32_t token : tokens) {
    if (token < 0 || token >= info_.vocab_size) {
      throw std::invalid_argument("token id " + std::to_string(token) + " is outside the vocabulary of " +
                                  std::to_string(info_.vocab_size));
    }
    std::memcpy(out, &token, info_.token_size);  // the low bytes come first
    out += info_.token_size;
  }
  info_.tokens += static_cast<int64_t>(tokens.size());
  info_.documents += 1;
  info_.text_bytes += text_bytes;
  ends_.push_back(static_cast<uint64_t>(info_.tokens));
}

TokenShardInfo TokenShardWriter::write(const std::filesystem::path& path) {
  tokens_.resize(padded_token_bytes(static_cast<uint64_t>(info_.tokens), info_.token_size));
  const auto index = std::as_bytes(std::span(ends_));
  info_.checksum = extend_checksum(extend_checksum(0, tokens_), index);
  const ShardHeader header = make_shard_header(info_);

  AtomicFile file(path);
  file.write(&header, sizeof header);
  file.write(tokens_.data(), tokens_.size());
  file.write(index.data(), index.size());
  file.commit();

  const TokenShardInfo written = info_;
  info_.documents = info_.tokens = info_.text_bytes = 0;
  info_.checksum = 0;
  tokens_.clear();
  ends_.clear();
  return written;
}

}  // namespace bov::experiments
