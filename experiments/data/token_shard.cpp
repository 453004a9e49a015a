#include "experiments/data/token_shard.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

#include "experiments/data/shard_format.h"

namespace bov::experiments {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& problem) {
  throw std::runtime_error("token shard " + path.string() + ": " + problem);
}

// The size that a file with this header must have, or 0 where the numbers cannot be true.
uint64_t expected_size(const ShardHeader& header) {
  constexpr uint64_t kLargest = uint64_t{1} << 56;
  if (header.tokens > kLargest || header.documents > header.tokens) return 0;
  return sizeof(ShardHeader) + padded_token_bytes(header.tokens, header.token_size) +
         header.documents * sizeof(uint64_t);
}

void check_header(const std::filesystem::path& path, const ShardHeader& header, uint64_t file_size) {
  if (header.magic != kShardMagic)
    fail(path, "this is no token shard (wrong magic); `bov data build` makes them");
  if (header.version != kShardVersion) {
    fail(path, "its format version is " + std::to_string(header.version) + ", this program reads " +
                   std::to_string(kShardVersion) + "; build the data again");
  }
  if (shard_header_checksum(header) != header.header_checksum)
    fail(path, "its header is damaged (wrong checksum)");
  if (header.token_size != 2 && header.token_size != 4) {
    fail(path, "its tokens have " + std::to_string(header.token_size) + " bytes, expected 2 or 4");
  }
  if (file_size != expected_size(header)) {
    fail(path, "it has " + std::to_string(file_size) + " bytes, its header promises " +
                   std::to_string(expected_size(header)) +
                   (file_size < expected_size(header) ? "; it is truncated" : ""));
  }
}

void check_index(const std::filesystem::path& path, std::span<const uint64_t> ends, uint64_t tokens) {
  const bool ordered = std::is_sorted(ends.begin(), ends.end());
  const uint64_t last = ends.empty() ? 0 : ends.back();
  if (!ordered || last != tokens) fail(path, "its document index is damaged");
}

}  // namespace

struct TokenShard::Mapping {
  explicit Mapping(const std::filesystem::path& path) {
    // Without O_NONBLOCK, opening a pipe would wait for a writer.
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) fail(path, std::string("cannot open it: ") + std::strerror(errno));
    struct stat status {};
    const bool known = ::fstat(descriptor, &status) == 0;
    bytes = known ? static_cast<size_t>(status.st_size) : 0;
    if (bytes >= sizeof(ShardHeader)) {
      void* mapped = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, descriptor, 0);
      data = mapped == MAP_FAILED ? nullptr : static_cast<const std::byte*>(mapped);
    }
    const std::string reason = std::strerror(errno);
    ::close(descriptor);
    if (known && !S_ISREG(status.st_mode)) fail(path, "it is no regular file");
    if (known && bytes < sizeof(ShardHeader)) {
      fail(path, "it has " + std::to_string(bytes) +
                     " bytes, too few for a header; it is truncated or no token shard");
    }
    if (data == nullptr) fail(path, "cannot map it: " + reason);
  }
  ~Mapping() {
    if (data != nullptr) ::munmap(const_cast<std::byte*>(data), bytes);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::span<const std::byte> after_header() const {
    return std::span(data, bytes).subspan(sizeof(ShardHeader));
  }

  const std::byte* data = nullptr;
  size_t bytes = 0;
};

TokenShard::TokenShard(std::filesystem::path path,
                       std::shared_ptr<const Mapping> mapping,
                       TokenShardInfo info)
    : path_(std::move(path)), mapping_(std::move(mapping)), info_(info) {
  tokens_ = mapping_->after_header().data();
  const auto* index = tokens_ + padded_token_bytes(static_cast<uint64_t>(info.tokens), info.token_size);
  ends_ = {reinterpret_cast<const uint64_t*>(index), static_cast<size_t>(info.documents)};
}

TokenShard TokenShard::open(const std::filesystem::path& path) {
  auto mapping = std::make_shared<const Mapping>(path);
  ShardHeader header;
  std::memcpy(&header, mapping->data, sizeof header);
  check_header(path, header, mapping->bytes);
  TokenShardInfo info{header.token_size,
                      static_cast<int32_t>(header.vocab_size),
                      header.bos,
                      header.tokenizer_hash,
                      static_cast<int64_t>(header.documents),
                      static_cast<int64_t>(header.tokens),
                      static_cast<int64_t>(header.text_bytes),
                      header.checksum};
  TokenShard shard(path, std::move(mapping), info);
  check_index(path, shard.ends_, header.tokens);
  return shard;
}

int64_t TokenShard::size_in_bytes() const {
  return static_cast<int64_t>(mapping_->bytes);
}

int64_t TokenShard::length(int64_t index) const {
  if (index < 0 || index >= info_.documents) {
    fail(path_, "document " + std::to_string(index) + " of " + std::to_string(info_.documents));
  }
  return static_cast<int64_t>(ends_[static_cast<size_t>(index)]) - begin_of(index);
}

void TokenShard::copy(int64_t index, int64_t offset, std::span<int32_t> out) const {
  const auto count = static_cast<int64_t>(out.size());
  if (offset < 0 || count > length(index) - offset) {
    fail(path_, "tokens [" + std::to_string(offset) + ", " + std::to_string(offset + count) +
                    ") of document " + std::to_string(index) + ", which has " +
                    std::to_string(length(index)));
  }
  const auto convert = [&]<typename Token>(Token) {
    const auto* tokens = reinterpret_cast<const Token*>(tokens_) + begin_of(index) + offset;
    std::copy_n(tokens, count, out.begin());
  };
  if (info_.token_size == 2) {
    convert(uint16_t{});
  } else {
    convert(uint32_t{});
  }
}

void TokenShard::verify() const {
  const uint32_t found = extend_checksum(0, mapping_->after_header());
  if (found != info_.checksum) {
    fail(path_, "its checksum is " + std::to_string(found) + ", its header promises " +
                    std::to_string(info_.checksum) + "; the file is damaged, build the data again");
  }
}

}  // namespace bov::experiments
