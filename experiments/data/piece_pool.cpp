#include "experiments/data/piece_pool.h"

#include <iterator>

namespace bov::experiments {

void PiecePool::add(const DocumentPiece& piece) {
  by_length_[piece.length()].push_back(piece);
  ++size_;
}

std::optional<DocumentPiece> PiecePool::take_longest(int64_t room) {
  const auto too_long = by_length_.upper_bound(room);
  if (too_long == by_length_.begin()) return std::nullopt;
  return take_from(std::prev(too_long));
}

DocumentPiece PiecePool::take_shortest() {
  return take_from(by_length_.begin());
}

DocumentPiece PiecePool::take_from(ByLength::iterator bucket) {
  const DocumentPiece piece = bucket->second.front();
  bucket->second.pop_front();
  if (bucket->second.empty()) by_length_.erase(bucket);
  --size_;
  return piece;
}

std::vector<DocumentPiece> PiecePool::pieces() const {
  std::vector<DocumentPiece> all;
  all.reserve(static_cast<size_t>(size_));
  for (const auto& [length, bucket] : by_length_) all.insert(all.end(), bucket.begin(), bucket.end());
  return all;
}

}  // namespace bov::experiments
