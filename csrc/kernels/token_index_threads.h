#pragma once

#include "csrc/kernels/id_report.h"

/// What one thread of each token_index kernel does, as functions that know no CUDA. The kernels sort (key, position)
/// pairs by key, keep the places where a new id begins, and fill what is left.
namespace bov::kernels {

/// The sort key of an id: itself, or `rows`, after all others, for one outside the table, which is reported.
BOV_HOST_DEVICE int32_t sort_key(int64_t id, int64_t rows, IdReport* report) {
  if (is_inside(id, rows)) {
    return static_cast<int32_t>(id);
  }
  report_id(report, id, rows);
  return static_cast<int32_t>(rows);
}

/// Whether a distinct id of the table begins at sorted place `k`.
BOV_HOST_DEVICE bool begins_segment(const int32_t* keys, int64_t k, int64_t rows) {
  return keys[k] < rows && (k == 0 || keys[k - 1] != keys[k]);
}

/// First place of keys[0, n), ascending, whose key is at least `key`.
BOV_HOST_DEVICE int64_t first_place_of(const int32_t* keys, int64_t n, int64_t key) {
  int64_t low = 0;
  int64_t high = n;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (keys[middle] < key) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

struct SegmentFill {
  const int32_t* keys;  ///< [positions] ascending
  int64_t positions, rows;
  const int32_t* count;  ///< distinct ids of the table
  int64_t capacity;      ///< min(positions, rows)
  int32_t* offsets;      ///< [capacity + 1]; the first `count` are given
  int32_t* distinct;     ///< [capacity]
};

/// Entry `s` of [0, capacity]: the id of a segment, or "none".
BOV_HOST_DEVICE void fill_segment(const SegmentFill& p, int64_t s) {
  const bool used = s < *p.count;
  if (!used) {
    p.offsets[s] = static_cast<int32_t>(first_place_of(p.keys, p.positions, p.rows));
  }
  if (s < p.capacity) {
    p.distinct[s] = used ? p.keys[p.offsets[s]] : static_cast<int32_t>(p.rows);
  }
}

}  // namespace bov::kernels
