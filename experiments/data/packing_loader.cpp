#include "experiments/data/packing_loader.h"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>

#include "experiments/data/document_order.h"

namespace bov::experiments {
namespace {

// The published loader tokenises documents in groups of this size, so its buffer holds up to 127 more than it
// must.
constexpr int64_t kRefillGroup = 128;

void check_options(const TokenDocuments& documents, const PackingOptions& options) {
  const auto positive = [](const char* name, int64_t value) {
    if (value < 1) {
      throw std::invalid_argument(std::string("packing: ") + name + " is " + std::to_string(value) +
                                  ", expected at least 1");
    }
  };
  positive("rows", options.rows);
  positive("sequence_length", options.sequence_length);
  positive("buffer_documents", options.buffer_documents);
  if (documents.tokens() == 0) throw std::invalid_argument("packing: there is no document to pack");
  if (documents.size() > UINT32_MAX) throw std::invalid_argument("packing: more than 2^32 - 1 documents");
}

}  // namespace

PackingLoader::PackingLoader(const TokenDocuments& documents, int32_t bos, PackingOptions options)
    : documents_(documents), bos_(bos), options_(options) {
  check_options(documents_, options_);
  start_epoch(0);
}

PackedBatch PackingLoader::next() {
  PackedBatch batch;
  batch.rows = options_.rows;
  batch.width = options_.sequence_length + 1;
  batch.tokens.resize(static_cast<size_t>(batch.rows * batch.width));
  for (int64_t row = 0; row < batch.rows; ++row) fill_row(batch.tokens.data() + row * batch.width);
  rows_made_ += batch.rows;
  return batch;
}

void PackingLoader::fill_row(int32_t* row) {
  const int64_t width = options_.sequence_length + 1;
  for (int64_t filled = 0; filled < width;) {
    refill();
    const int64_t room = width - filled;
    std::optional<DocumentPiece> piece = pool_.take_longest(room);
    if (!piece) {
      piece = pool_.take_shortest();
      tokens_dropped_ += piece->length() - room;
      piece->tokens = room - 1;
    }
    row[filled] = bos_;
    documents_.copy(piece->document, piece->offset,
                    std::span(row + filled + 1, static_cast<size_t>(piece->tokens)));
    filled += piece->length();
  }
}

void PackingLoader::refill() {
  while (pool_.size() < options_.buffer_documents) {
    for (int64_t read = 0; read < kRefillGroup; ++read) {
      if (position_ == documents_.size()) {
        start_epoch(epoch_ + 1);
        break;
      }
      const size_t at = static_cast<size_t>(position_++);
      read_document(order_.empty() ? static_cast<int64_t>(at) : order_[at]);
    }
  }
}

void PackingLoader::read_document(int64_t document) {
  const int64_t tokens = documents_.length(document);
  const int64_t longest = options_.as_published ? tokens : options_.sequence_length;
  for (int64_t offset = 0; offset < tokens; offset += longest) {
    pool_.add({document, offset, std::min(longest, tokens - offset)});
  }
}

void PackingLoader::start_epoch(int64_t epoch) {
  epoch_ = epoch;
  position_ = 0;
  if (options_.shuffle) order_ = shuffled_documents(documents_.size(), options_.seed, epoch);
}

nlohmann::json PackingLoader::fingerprint() const {
  return {{"documents", documents_.size()},
          {"tokens", documents_.tokens()},
          {"sequence_length", options_.sequence_length},
          {"buffer_documents", options_.buffer_documents},
          {"seed", options_.seed},
          {"shuffle", options_.shuffle},
          {"as_published", options_.as_published}};
}

nlohmann::json PackingLoader::state() const {
  nlohmann::json waiting = nlohmann::json::array();
  for (const DocumentPiece& piece : pool_.pieces()) {
    waiting.push_back({piece.document, piece.offset, piece.tokens});
  }
  return {{"of", fingerprint()},
          {"epoch", epoch_},
          {"position", position_},
          {"rows_made", rows_made_},
          {"tokens_dropped", tokens_dropped_},
          {"waiting", std::move(waiting)}};
}

void PackingLoader::restore(const nlohmann::json& state) {
  const nlohmann::json expected = fingerprint();
  for (const auto& [name, value] : expected.items()) {
    const nlohmann::json found = state.at("of").value(name, nlohmann::json());
    if (found != value) {
      throw std::runtime_error("the data position was saved with " + name + " = " + found.dump() +
                               ", but this run has " + value.dump());
    }
  }
  PiecePool pool;
  for (const nlohmann::json& piece : state.at("waiting")) {
    pool.add({piece.at(0).get<int64_t>(), piece.at(1).get<int64_t>(), piece.at(2).get<int64_t>()});
  }
  start_epoch(state.at("epoch").get<int64_t>());
  position_ = state.at("position").get<int64_t>();
  rows_made_ = state.at("rows_made").get<int64_t>();
  tokens_dropped_ = state.at("tokens_dropped").get<int64_t>();
  pool_ = std::move(pool);
}

}  // namespace bov::experiments
