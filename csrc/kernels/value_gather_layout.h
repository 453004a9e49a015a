#pragma once

#include "csrc/kernels/host_device.h"

/// How value_gather divides its work, as plain arithmetic for CPU, GPU and tests.
///
/// Backward: positions 0..n-1 are sorted by id (stable), so the rows that feed one table row form a segment.
/// The sorted order is cut into chunks of equal length, whatever the ids are: a frequent id spreads over many
/// chunks, a rare one shares a chunk with others. A chunk finishes the segments that lie inside it. One that
/// crosses a border leaves a partial sum in each chunk: the `tail` of the chunk where it begins, the `head`
/// of every later one. Combining adds tail, head, head, ... in chunk order. Neither step depends on the
/// number of threads.
namespace bov::kernels {

/// Positions in a chunk: about 1024 chunks, of 32 positions at least. Many enough to fill a device, and few
/// enough that the most frequent token of a text (an eighth of it) leaves about 128 partials to add.
BOV_HOST_DEVICE int64_t chunk_length(int64_t positions) {
  int64_t length = 32;
  while (length * 1024 < positions) {
    length *= 2;
  }
  return length;
}

/// A piece of one segment inside a chunk, in sorted positions.
struct SegmentPiece {
  int64_t row;         ///< the table row
  int64_t begin, end;  ///< sorted positions of the piece
  bool starts_before;  ///< the segment began in an earlier chunk
  bool continues;      ///< the segment goes on in the next chunk
};

/// The piece that starts at sorted position `begin` of the chunk [chunk_begin, chunk_end). `row_begin[r]` is
/// the first sorted position whose id is at least r, for r in [0, R].
template <typename Id>
BOV_HOST_DEVICE SegmentPiece segment_piece(
    const Id* sorted_ids, const Id* row_begin, int64_t begin, int64_t chunk_begin, int64_t chunk_end) {
  const int64_t row = sorted_ids[begin];
  const int64_t segment_end = row_begin[row + 1];
  return {row, begin, segment_end < chunk_end ? segment_end : chunk_end,
          row_begin[row]<chunk_begin, segment_end> chunk_end};
}

/// First position of sorted_ids[0, n) whose id is at least `row`.
template <typename Id>
BOV_HOST_DEVICE int64_t first_position_of(const Id* sorted_ids, int64_t n, int64_t row) {
  int64_t low = 0;
  int64_t high = n;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (sorted_ids[middle] < row) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/// Grid of the forward kernel: `lanes` neighbouring threads move one row together, each block
/// threads / lanes rows at a time.
struct GatherGrid {
  int64_t vectors;  ///< packs in a row
  int lanes;        ///< power of two, at most a warp
  int threads;      ///< in a block
  int64_t blocks;
};

BOV_HOST_DEVICE GatherGrid gather_grid(int64_t positions, int64_t vectors, int64_t max_blocks = 1 << 20) {
  GatherGrid grid{vectors, 1, 256, 0};
  while (grid.lanes < 32 && grid.lanes < vectors) {
    grid.lanes *= 2;
  }
  const int64_t wanted = ceil_div(positions, grid.threads / grid.lanes);
  grid.blocks = wanted < max_blocks ? wanted : max_blocks;
  return grid;
}

/// Grid of the backward kernels: one block a chunk and tile of columns, one thread a pack of columns.
struct ChunkGrid {
  int64_t vectors;  ///< packs in a row
  int64_t chunk;    ///< positions in a chunk
  int64_t chunks;   ///< grid x
  int threads;      ///< in a block, a multiple of the warp
  int64_t tiles;    ///< grid y
};

BOV_HOST_DEVICE ChunkGrid chunk_grid(int64_t positions, int64_t vectors) {
  ChunkGrid grid{vectors, chunk_length(positions), 0, 32, 0};
  grid.chunks = ceil_div(positions, grid.chunk);
  while (grid.threads < 256 && grid.threads < vectors) {
    grid.threads += 32;
  }
  grid.tiles = ceil_div(vectors, grid.threads);
  return grid;
}

}  // namespace bov::kernels
