#pragma once

#include "csrc/kernels/id_report.h"
#include "csrc/kernels/launch.h"

/// The kernels of token_index (see launch.h). Pairs (key, position) are made and sorted by key, the places where a new id
/// begins are kept, and what is left is filled.
namespace bov::kernels {

/// The sort key of an id: itself, or `rows`, after all others, for one outside the table, which is reported.
BOV_HOST_DEVICE int32_t sort_key(int64_t id, int64_t rows, IdReport* report) {
  if (is_inside(id, rows)) {
    return static_cast<int32_t>(id);
  }
  report_id(report, id, rows);
  return static_cast<int32_t>(rows);
}

/// Makes the pairs that are sorted.
struct PairKernel {
  const int64_t* ids;  ///< [positions]
  int64_t positions, rows;
  int32_t* keys;    ///< [positions] out
  int32_t* places;  ///< [positions] out
  IdReport* report;

  LaunchSize size() const { return list_size(positions); }

  template <typename Thread>
  BOV_HOST_DEVICE void operator()(const Thread& thread) const {
    const int64_t i = list_entry(thread);
    if (i < positions) {
      keys[i] = sort_key(ids[i], rows, report);
      places[i] = static_cast<int32_t>(i);
    }
  }
};

/// Whether a distinct id of the table begins at a sorted place.
struct BeginsSegment {
  const int32_t* keys;
  int64_t rows;

  BOV_HOST_DEVICE bool operator()(int32_t k) const {
    return keys[k] < rows && (k == 0 || keys[k - 1] != keys[k]);
  }
};

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

/// Fills the id of each segment, and "none" where there are fewer than the capacity.
struct FillKernel {
  const int32_t* keys;  ///< [positions] ascending
  int64_t positions, rows;
  const int32_t* count;  ///< distinct ids of the table
  int64_t capacity;      ///< min(positions, rows)
  int32_t* offsets;      ///< [capacity + 1]; the first `count` are given
  int32_t* distinct;     ///< [capacity]

  LaunchSize size() const { return list_size(capacity + 1); }

  template <typename Thread>
  BOV_HOST_DEVICE void operator()(const Thread& thread) const {
    const int64_t s = list_entry(thread);
    if (s > capacity) {
      return;
    }
    const bool used = s < *count;
    if (!used) {
      offsets[s] = static_cast<int32_t>(first_place_of(keys, positions, rows));
    }
    if (s < capacity) {
      distinct[s] = used ? keys[offsets[s]] : static_cast<int32_t>(rows);
    }
  }
};

}  // namespace bov::kernels
