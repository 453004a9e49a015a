#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

namespace bov::experiments {

/// Part of a document that waits to be placed in a row: bos and then tokens [offset, offset + tokens) of the
/// document.
struct DocumentPiece {
  int64_t document = 0;
  int64_t offset = 0;
  int64_t tokens = 0;

  /// Places in a row, bos included.
  int64_t length() const { return tokens + 1; }
  bool operator==(const DocumentPiece&) const = default;
};

/// Waiting pieces by length. Among equal lengths the one that came first is taken first, as a scan of a list
/// in order of arrival would.
class PiecePool {
 public:
  void add(const DocumentPiece& piece);
  /// Removes and returns the longest piece of at most `room` places, if there is one.
  std::optional<DocumentPiece> take_longest(int64_t room);
  /// Removes and returns the shortest piece. The pool must not be empty.
  DocumentPiece take_shortest();

  int64_t size() const { return size_; }
  /// All pieces by growing length, those of one length in order of arrival; adding them to an empty pool in
  /// this order gives an equal pool.
  std::vector<DocumentPiece> pieces() const;

 private:
  using ByLength = std::map<int64_t, std::deque<DocumentPiece>>;
  DocumentPiece take_from(ByLength::iterator bucket);

  ByLength by_length_;
  int64_t size_ = 0;
};

}  // namespace bov::experiments
