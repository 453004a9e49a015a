#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "experiments/data/piece_pool.h"
#include "experiments/data/token_documents.h"

namespace bov::experiments {

/// `rows` x `sequence_length` ids each, row-major. A target of -1 stands for padding and counts nowhere.
struct ValidationBatch {
  int64_t rows = 0;
  int64_t sequence_length = 0;
  std::vector<int32_t> inputs;
  std::vector<int32_t> targets;
};

/// Which documents are read, and in which order.
struct DocumentSelection {
  std::vector<uint32_t> order = {};  ///< numbers of the documents; empty: all of them, as stored
  /// Tokens of them, bos not counted: the document that goes beyond is cut, and none is read after it.
  int64_t tokens = std::numeric_limits<int64_t>::max();
};

/// One pass over documents in which every token of every document is a target exactly once, so the bytes of
/// all targets add up to the bytes of the text. Documents are taken in order and cut into pieces of at most T
/// tokens, each after its own bos; pieces are packed best fit, never cropped, and what stays free of a row is
/// padded with bos as input and -1 as target. The last batch is filled up with padded rows. bos itself is a
/// target where a piece follows another in a row, as in training; it has no bytes.
class ValidationLoader {
 public:
  /// `documents` must outlive the loader. Throws std::invalid_argument for rows or sequence_length below 1.
  ValidationLoader(const TokenDocuments& documents,
                   int32_t bos,
                   int64_t rows,
                   int64_t sequence_length,
                   DocumentSelection selection = {});

  /// The next batch, or nothing after the last one.
  std::optional<ValidationBatch> next();
  /// Back to the first batch.
  void rewind();

 private:
  void refill();
  int64_t selected_documents() const;
  // Fills `row` from the front and returns how many places it used; 0 when nothing is left.
  int64_t fill_row(std::span<int32_t> row);

  const TokenDocuments& documents_;
  int32_t bos_;
  int64_t rows_;
  int64_t sequence_length_;
  DocumentSelection selection_;
  PiecePool pool_;
  int64_t documents_read_ = 0;
  int64_t tokens_read_ = 0;
};

}  // namespace bov::experiments
