#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "experiments/data/piece_pool.h"
#include "experiments/data/token_documents.h"

namespace bov::experiments {

struct PackingOptions {
  int64_t rows = 1;                 ///< sequences a batch
  int64_t sequence_length = 2048;   ///< T; a row holds T + 1 tokens, so that T of them have a target
  int64_t buffer_documents = 1000;  ///< pieces that wait, at least, before each placement
  uint64_t seed = 42;   ///< decides the order of the documents, together with the epoch and nothing else
  bool shuffle = true;  ///< false: every epoch in the order of the shards, as the published loader
  bool as_published = false;  ///< keep documents longer than a row whole: they pile up in the buffer
};

/// `rows` x `width` token ids, row-major. Inputs are columns [0, width - 1), targets columns [1, width).
struct PackedBatch {
  int64_t rows = 0;
  int64_t width = 0;
  std::vector<int32_t> tokens;
};

/// BOS-aligned best-fit packing (the published training loader; arXiv 2606.02780 trains with it). Every
/// document starts with bos. A row is filled with the longest waiting piece that fits; if none fits, with the
/// head of the shortest one, whose tail is dropped. So rows have no padding and all begin with bos.
///
/// Documents longer than a row never fit whole. Published rule (`as_published`): they stay in the buffer
/// until they are the shortest, so they pile up and the buffer degenerates. Default rule: when read, a
/// document is cut into pieces of at most T tokens, each with its own bos; nothing of it is lost by the cut
/// and none can pile up.
///
/// The rows do not depend on `rows`: other batch sizes cut the same sequence of rows elsewhere.
class PackingLoader {
 public:
  /// `documents` must outlive the loader. Throws std::invalid_argument for an option out of range or an empty
  /// list.
  PackingLoader(const TokenDocuments& documents, int32_t bos, PackingOptions options);

  PackedBatch next();

  /// Position between two batches: epoch, next document, and the waiting pieces as places in documents. A
  /// loader of the same documents and options continues with exactly the rows that would have come next.
  nlohmann::json state() const;
  /// Throws std::runtime_error if the state is from other documents, another seed, row length or packing
  /// rule.
  void restore(const nlohmann::json& state);

  /// Passes over the documents that are finished by the reader; it runs ahead of the rows by the buffer.
  int64_t epoch() const { return epoch_; }
  int64_t rows_made() const { return rows_made_; }
  /// Tokens dropped so far because the tail of a piece did not fit in its row.
  int64_t tokens_dropped() const { return tokens_dropped_; }

 private:
  void fill_row(int32_t* row);
  void refill();
  void read_document(int64_t document);
  void start_epoch(int64_t epoch);
  nlohmann::json fingerprint() const;

  const TokenDocuments& documents_;
  int32_t bos_;
  PackingOptions options_;
  PiecePool pool_;
  std::vector<uint32_t> order_;  // documents of this epoch in reading order; empty: as stored
  int64_t epoch_ = 0;
  int64_t position_ = 0;  // documents read in this epoch
  int64_t rows_made_ = 0;
  int64_t tokens_dropped_ = 0;
};

}  // namespace bov::experiments
