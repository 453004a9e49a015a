#include "experiments/data/validation_loader.h"

#include <algorithm>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

namespace bov::experiments {
namespace {

constexpr int32_t kNoTarget = -1;
// Pieces to choose from when a row is filled; as many as in training.
constexpr int64_t kWaitingPieces = 1000;

}  // namespace

ValidationLoader::ValidationLoader(const TokenDocuments& documents,
                                   int32_t bos,
                                   int64_t rows,
                                   int64_t sequence_length,
                                   DocumentSelection selection)
    : documents_(documents),
      bos_(bos),
      rows_(rows),
      sequence_length_(sequence_length),
      selection_(std::move(selection)) {
  if (rows < 1 || sequence_length < 1) {
    throw std::invalid_argument("validation: rows = " + std::to_string(rows) + " and sequence_length = " +
                                std::to_string(sequence_length) + " must be at least 1");
  }
}

std::optional<ValidationBatch> ValidationLoader::next() {
  const auto size = static_cast<size_t>(rows_ * sequence_length_);
  ValidationBatch batch{rows_, sequence_length_, std::vector(size, bos_), std::vector(size, kNoTarget)};
  std::vector<int32_t> row(static_cast<size_t>(sequence_length_ + 1));
  int64_t made = 0;
  for (; made < rows_; ++made) {
    const int64_t filled = fill_row(row);
    if (filled == 0) break;
    const int64_t first = made * sequence_length_;
    std::copy_n(row.begin(), std::min(filled, sequence_length_), batch.inputs.begin() + first);
    std::copy_n(row.begin() + 1, filled - 1, batch.targets.begin() + first);
  }
  if (made == 0) return std::nullopt;
  return batch;
}

void ValidationLoader::rewind() {
  pool_ = {};
  documents_read_ = 0;
  tokens_read_ = 0;
}

int64_t ValidationLoader::fill_row(std::span<int32_t> row) {
  int64_t filled = 0;
  const auto width = static_cast<int64_t>(row.size());
  while (filled < width) {
    refill();
    const std::optional<DocumentPiece> piece = pool_.take_longest(width - filled);
    if (!piece) break;
    row[static_cast<size_t>(filled)] = bos_;
    documents_.copy(piece->document, piece->offset,
                    row.subspan(static_cast<size_t>(filled + 1), static_cast<size_t>(piece->tokens)));
    filled += piece->length();
  }
  return filled;
}

int64_t ValidationLoader::selected_documents() const {
  return selection_.order.empty() ? documents_.size() : static_cast<int64_t>(selection_.order.size());
}

void ValidationLoader::refill() {
  while (pool_.size() < kWaitingPieces && documents_read_ < selected_documents() &&
         tokens_read_ < selection_.tokens) {
    const int64_t place = documents_read_++;
    const int64_t document = selection_.order.empty() ? place : selection_.order[static_cast<size_t>(place)];
    const int64_t tokens = std::min(documents_.length(document), selection_.tokens - tokens_read_);
    tokens_read_ += tokens;
    for (int64_t offset = 0; offset < tokens; offset += sequence_length_) {
      pool_.add({document, offset, std::min(sequence_length_, tokens - offset)});
    }
  }
}

}  // namespace bov::experiments
