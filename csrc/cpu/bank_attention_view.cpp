#include "csrc/cpu/bank_attention_view.h"

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <bit>
#include <limits>

namespace bov::ops::cpu {
namespace {

/// Where the automatic choice takes the aggregated algorithm: enough slots, and ids that repeat.
constexpr int64_t kAggregatedSlots = 512;
constexpr double kAggregatedRepeats = 1.25;

template <typename Id>
void copy_ids(const Id* ids, int64_t stride, int64_t rows, int64_t sequence, SequenceView& view) {
  const int64_t count = view.count();
  view.ids.resize(count);
  bool inside = true;
  const auto copy = [&](int64_t step) {
    for (int64_t j = 0; j < count; ++j) {
      const auto id = static_cast<int64_t>(ids[(view.first + j) * step]);
      inside &= id >= 0 && id < rows;
      view.ids[j] = static_cast<int32_t>(id);
    }
  };
  stride == 1 ? copy(1) : copy(stride);
  for (int64_t j = view.first; !inside && j < view.length; ++j) {
    const auto id = static_cast<int64_t>(ids[j * stride]);
    TORCH_CHECK_INDEX(id >= 0 && id < rows, "bank_attention: id ", id, " at ids[", sequence, ", ", j,
                      "] is outside the table of ", rows, " rows");
  }
}

void copy_ids(const at::Tensor& ids, int64_t rows, int64_t sequence, SequenceView& view) {
  const auto copy = [&](auto zero) {
    using Id = decltype(zero);
    copy_ids(ids.const_data_ptr<Id>() + sequence * ids.stride(0), ids.stride(1), rows, sequence, view);
  };
  switch (ids.scalar_type()) {
    case at::kLong:
      return copy(int64_t{});
    case at::kInt:
      return copy(int32_t{});
    case at::kShort:
      return copy(int16_t{});
    case at::kUInt16:
      return copy(uint16_t{});
    default:
      return copy(uint8_t{});
  }
}

/// Finds the distinct ids of a view without a branch that text would mislead. Their places are looked up in an
/// open-addressed map that lives for this call: it takes 16 bytes a slot in view at most, whatever the table's size. An
/// array over rows would take 4 bytes a row for each thread and stay. Yet the map is that array where the table is not
/// larger than it: ids below its size have entries of their own, and none is searched for.
void mark_distinct(int64_t rows, SequenceView& view) {
  const auto size = std::bit_ceil(static_cast<uint64_t>(std::min(rows, 2 * view.count())));
  const int bits = std::countr_zero(size);
  std::vector<int32_t> map(size);  // 1 + the id's place, or 0
  view.place.resize(view.count());
  view.distinct.resize(std::min(view.count(), rows) + 1);
  int32_t* distinct = view.distinct.data();
  int32_t found = 0;
  for (int64_t j = 0; j < view.count(); ++j) {
    const int32_t id = view.ids[j];
    const auto high = static_cast<uint64_t>(id) >> bits;
    uint64_t entry = (static_cast<uint64_t>(id) ^ high * 0x9e3779b97f4a7c15u) & (size - 1);
    int32_t known = map[entry];
    // One condition without a shortcut, so that it is always false where nothing is searched for.
    while ((known != 0) & (distinct[known - (known != 0)] != id)) {
      entry = (entry + 1) & (size - 1);
      known = map[entry];
    }
    const int32_t place = known == 0 ? found : known - 1;
    map[entry] = place + 1;
    distinct[found] = id;
    found += known == 0;
    view.place[j] = place;
  }
  view.distinct.resize(found);
}

void choose_algorithm(BankAlgorithm wanted, int64_t rows, SequenceView& view) {
  if (wanted == BankAlgorithm::indirect || view.count() == 0 ||
      (wanted == BankAlgorithm::automatic && view.count() < kAggregatedSlots)) {
    return;
  }
  mark_distinct(rows, view);
  view.aggregated =
      wanted == BankAlgorithm::aggregated ||
      static_cast<double>(view.count()) >= kAggregatedRepeats * static_cast<double>(view.distinct.size());
}

}  // namespace

std::vector<SequenceView> view_sequences(const at::Tensor& ids,
                                         const at::Tensor& lengths,
                                         int64_t queries,
                                         int64_t left,
                                         int64_t table_rows,
                                         BankAlgorithm algorithm) {
  TORCH_CHECK(table_rows <= std::numeric_limits<int32_t>::max(),
              "bank_attention: a table has at most 2^31 - 1 rows, got ", table_rows);
  const auto length = lengths.accessor<int64_t, 1>();
  const int64_t slots = ids.size(1);
  std::vector<SequenceView> views(ids.size(0));
  at::parallel_for(0, ids.size(0), 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      TORCH_CHECK(length[b] == 0 || (length[b] >= queries && length[b] <= slots), "bank_attention: lengths[",
                  b, "] is ", length[b], "; it must be 0 or from ", queries, " (queries) to ", slots,
                  " (slots)");
      const int64_t earlier = std::max<int64_t>(0, length[b] - queries);
      views[b].length = length[b];
      views[b].first = queries == 0 ? length[b] : earlier - std::min(left, earlier);
      copy_ids(ids, table_rows, b, views[b]);
      choose_algorithm(algorithm, table_rows, views[b]);
    }
  });
  return views;
}

}  // namespace bov::ops::cpu
