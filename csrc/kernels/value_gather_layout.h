#pragma once

#include "csrc/kernels/host_device.h"

/// How value_gather divides its work, as plain arithmetic for CPU, GPU and tests.
///
/// Backward: positions are sorted by id (csrc/token_index.h), so the rows that feed one table row form a segment.
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

/// The index of csrc/token_index.h, by pointers. On a device its values are taken as they come, because a check would
/// make the host wait. What they say is therefore held inside the tensors: an index of other ids gives sums of those
/// ids, one that is none gives any, and neither lets a kernel read or write outside.
struct Segments {
  const int32_t* positions;  ///< [n] row of grad at each sorted place
  const int32_t*
      offsets;  ///< [capacity + 1] first place of each segment; all ids end where the first unused begins
  const int32_t* distinct;  ///< [capacity] table row of each segment
  const int32_t* count;     ///< [1] segments
  int64_t n, capacity;

  BOV_HOST_DEVICE int64_t size() const { return clamped(*count, 0, capacity); }
  BOV_HOST_DEVICE int64_t begin(int64_t segment) const { return clamped(offsets[segment], 0, n); }
  BOV_HOST_DEVICE int64_t position(int64_t place) const { return clamped(positions[place], 0, n - 1); }
};

/// Sorted places [begin, end) of one chunk; empty behind the last id inside the table.
struct Chunk {
  int64_t begin, end;
  int64_t first_segment;  ///< the one that `begin` lies in
};

BOV_HOST_DEVICE Chunk chunk_at(const Segments& segments, int64_t chunk, int64_t length) {
  const int64_t count = segments.size();
  const int64_t all = count == 0 ? 0 : segments.begin(count);
  Chunk result{chunk * length, (chunk + 1) * length, 0};
  if (result.end > all) {
    result.end = all;
  }
  int64_t above = count;  // the first segment that begins behind `begin`
  while (result.first_segment + 1 < above) {
    const int64_t middle = result.first_segment + (above - result.first_segment) / 2;
    if (segments.begin(middle) <= result.begin) {
      result.first_segment = middle;
    } else {
      above = middle;
    }
  }
  return result;
}

/// A piece of one segment inside a chunk, in sorted places.
struct SegmentPiece {
  int64_t row;         ///< the table row
  int64_t begin, end;  ///< places of the piece
  bool starts_before;  ///< the segment began in an earlier chunk
  bool continues;      ///< the segment goes on in the next chunk
};

/// What `chunk` has of the segment `segment`, which begins before its end.
BOV_HOST_DEVICE SegmentPiece segment_piece(const Segments& segments, const Chunk& chunk, int64_t segment) {
  const int64_t begin = segments.begin(segment);
  const int64_t end = segments.begin(segment + 1);
  return {segments.distinct[segment], begin < chunk.begin ? chunk.begin : begin,
          end < chunk.end ? end : chunk.end, begin<chunk.begin, end> chunk.end};
}

/// The segment that begins in chunk `chunk` and goes on in the next, or -1.
BOV_HOST_DEVICE int64_t crossing_segment(const Segments& segments, int64_t chunk, int64_t length) {
  const Chunk next = chunk_at(segments, chunk + 1, length);
  if (next.begin >= next.end) {
    return -1;
  }
  const int64_t begin = segments.begin(next.first_segment);
  return begin < next.begin && begin >= next.begin - length ? next.first_segment : -1;
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
