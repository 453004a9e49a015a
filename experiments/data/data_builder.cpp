#include "experiments/data/data_builder.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "bov/io/atomic_file.h"
#include "experiments/data/data_files.h"
#include "experiments/data/text_hash.h"
#include "experiments/data/token_shard_writer.h"
#include "experiments/tokenizer/text_encoder.h"
#include "experiments/tokenizer/tokenizer_files.h"

namespace bov::experiments {
namespace {

// Text read before the threads start on it: enough to keep them busy, little enough to hold.
constexpr size_t kBatchBytes = 8 << 20;

// The shards of one split and their entry in the manifest.
class SplitWriter {
 public:
  SplitWriter(std::string name,
              const Tokenizer& tokenizer,
              int64_t shard_tokens,
              std::filesystem::path folder)
      : name_(std::move(name)),
        shard_tokens_(shard_tokens),
        folder_(std::move(folder)),
        writer_(tokenizer.vocab_size(), tokenizer.bos(), tokenizer.hash()) {}

  void add(std::span<const int32_t> tokens, int64_t text_bytes) {
    writer_.add(tokens, text_bytes);
    if (writer_.tokens() >= shard_tokens_) write_shard();
  }

  nlohmann::json finish() {
    if (writer_.documents() > 0) write_shard();
    return {{"documents", documents_}, {"tokens", tokens_}, {"bytes", text_bytes_}, {"shards", shards_}};
  }

 private:
  void write_shard() {
    const std::string file = shard_name(name_, shards_.size());
    const TokenShardInfo info = writer_.write(folder_ / file);
    shards_.push_back({{"file", file},
                       {"documents", info.documents},
                       {"tokens", info.tokens},
                       {"bytes", info.text_bytes},
                       {"checksum", info.checksum}});
    documents_ += info.documents;
    tokens_ += info.tokens;
    text_bytes_ += info.text_bytes;
  }

  std::string name_;
  int64_t shard_tokens_;
  std::filesystem::path folder_;
  TokenShardWriter writer_;
  nlohmann::json shards_ = nlohmann::json::array();
  int64_t documents_ = 0;
  int64_t tokens_ = 0;
  int64_t text_bytes_ = 0;
};

std::vector<std::string> read_batch(DocumentReader& documents) {
  std::vector<std::string> batch;
  for (size_t bytes = 0; bytes < kBatchBytes;) {
    std::optional<std::string> document = documents.next();
    if (!document) break;
    bytes += document->size();
    batch.push_back(std::move(*document));
  }
  return batch;
}

std::vector<int32_t> encode_checked(const Tokenizer& tokenizer,
                                    TextEncoder& encoder,
                                    const std::string& text) {
  std::vector<int32_t> ids = encoder.encode(text);
  if (tokenizer.decode(ids) != text) {
    throw std::runtime_error("the tokenizer does not give back the document that begins with '" +
                             text.substr(0, 60) + "'");
  }
  return ids;
}

// Encodes batches of documents, each with several threads; the result is in the order of the batch.
class ParallelEncoder {
 public:
  ParallelEncoder(const Tokenizer& tokenizer, int threads)
      : tokenizer_(tokenizer), encoders_(static_cast<size_t>(std::max(threads, 1)), TextEncoder(tokenizer)) {}

  std::vector<std::vector<int32_t>> encode(const std::vector<std::string>& batch) {
    std::vector<std::vector<int32_t>> encoded(batch.size());
    std::vector<std::exception_ptr> failures(encoders_.size());
    std::atomic<size_t> next{0};
    const auto work = [&](size_t thread) {
      try {
        for (size_t i = next++; i < batch.size(); i = next++) {
          encoded[i] = encode_checked(tokenizer_, encoders_[thread], batch[i]);
        }
      } catch (...) {
        failures[thread] = std::current_exception();
      }
    };
    {
      std::vector<std::jthread> threads;
      for (size_t thread = 0; thread < encoders_.size(); ++thread) threads.emplace_back(work, thread);
    }
    for (const std::exception_ptr& failure : failures) {
      if (failure) std::rethrow_exception(failure);
    }
    return encoded;
  }

 private:
  const Tokenizer& tokenizer_;
  std::vector<TextEncoder> encoders_;
};

void copy_tokenizer(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::filesystem::create_directories(to);
  for (const char* file : {kTokenizerModelFile, kTokenizerTableFile}) {
    std::filesystem::copy_file(from / file, to / file, std::filesystem::copy_options::overwrite_existing);
  }
}

}  // namespace

nlohmann::json build_data(DocumentReader& documents,
                          const DataBuildOptions& options,
                          const std::filesystem::path& output) {
  if (options.validation_per_mille < 0 || options.validation_per_mille >= 1000) {
    throw std::runtime_error("the validation share is " + std::to_string(options.validation_per_mille) +
                             " thousandths, expected 0 to 999");
  }
  if (std::filesystem::exists(output / kManifestFile)) {
    throw std::runtime_error(output.string() + " already holds data; remove it or choose another folder");
  }
  const Tokenizer tokenizer = Tokenizer::load(options.tokenizer);
  copy_tokenizer(options.tokenizer, output / kTokenizerFolder);

  SplitWriter train("train", tokenizer, options.shard_tokens, output);
  SplitWriter validation("validation", tokenizer, options.shard_tokens, output);
  ParallelEncoder encoder(tokenizer, options.threads);
  for (auto batch = read_batch(documents); !batch.empty(); batch = read_batch(documents)) {
    const auto encoded = encoder.encode(batch);
    for (size_t i = 0; i < batch.size(); ++i) {
      SplitWriter& split = in_validation_split(batch[i], options.validation_per_mille) ? validation : train;
      split.add(encoded[i], static_cast<int64_t>(batch[i].size()));
    }
  }
  if (documents.counts().documents == 0) throw std::runtime_error("the input holds no document");

  nlohmann::json manifest = {{"format", kDataFormat},
                             {"version", kDataVersion},
                             {"tokenizer",
                              {{"hash", hash_text(tokenizer.hash())},
                               {"vocab_size", tokenizer.vocab_size()},
                               {"bos", tokenizer.bos()}}},
                             {"validation_per_mille", options.validation_per_mille},
                             {"read", to_json(documents.counts())},
                             {"train", train.finish()},
                             {"validation", validation.finish()}};
  atomic_write_text(output / kManifestFile, manifest.dump(2) + "\n");
  return manifest;
}

}  // namespace bov::experiments
