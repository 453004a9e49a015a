#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "csrc/cpu/bank_attention_parts.h"
#include "csrc/cpu/bank_attention_passes.h"
#include "csrc/cpu/bank_attention_view.h"

namespace bov::ops::cpu {

/// One call of bank_attention. Slots are cut into splits, whose scores are independent tasks. For the indirect
/// algorithm a split also adds up its table rows; for the aggregated one the weights of equal ids are added first,
/// and ranges of distinct rows are the next tasks. At the end each sequence's parts are combined in their order.
template <typename Compute>
class BankAttentionRun {
 public:
  BankAttentionRun(const at::Tensor& q,
                   const at::Tensor& keys,
                   const at::Tensor& table,
                   const float* row_scale,
                   int64_t left,
                   const std::vector<SequenceView>& views)
      : queries_(q.size(1)), heads_(q.size(2)), left_(left), row_scale_(row_scale), views_(views) {
    shape_.heads = keys.size(2);
    shape_.group = heads_ / shape_.heads * queries_;
    shape_.width = q.size(3);
    shape_.rows = shape_.heads * shape_.group;
    shape_.padded = (shape_.rows + kScoreLanes - 1) / kScoreLanes * kScoreLanes;
    keys_ = {keys.scalar_type(), keys.const_data_ptr(), keys.stride(1), keys.stride(2)};
    key_batch_bytes_ = keys.stride(0) * static_cast<int64_t>(keys.element_size());
    table_ = {table.scalar_type(), table.const_data_ptr(), table.stride(0), shape_.width};
  }

  /// q and out: [batch, queries, heads, width], contiguous.
  void run(const Compute* q, Compute scale, Compute* out) {
    order_queries(q);
    make_splits();
    for_parts(splits_, [&](const Part& split) { score(split); });
    make_groups_and_ranges();
    for_parts(groups_, [&](const Part& group) { weigh(group); });
    for_parts(ranges_, [&](const Part& range) { add_range(range); });
    combine(scale, out);
  }

 private:
  using Part = BankPart<Compute>;
  using Passes = BankPasses<Compute>;

  Compute* allocate(int64_t count) {
    buffers_.push_back(std::make_unique_for_overwrite<Compute[]>(count));
    return buffers_.back().get();
  }

  /// Row of a query and a head of q among the rows of a sequence: those that share a key head are neighbours.
  int64_t row_of(int64_t query, int64_t head) const {
    const int64_t sharing = heads_ / shape_.heads;
    return head / sharing * shape_.group + query * sharing + head % sharing;
  }

  void order_queries(const Compute* q) {
    const auto batch = static_cast<int64_t>(views_.size());
    ordered_queries_ = allocate(batch * shape_.rows * shape_.width);
    const auto scale = static_cast<Compute>(1.0 / std::sqrt(static_cast<double>(shape_.width)));
    Compute* ordered = ordered_queries_;
    for (int64_t b = 0; b < batch; ++b, ordered += shape_.rows * shape_.width) {
      for (int64_t i = 0; i < shape_.rows; ++i, q += shape_.width) {
        Passes::reorder(keys_.type, q, 1, shape_.width, false, scale,
                        ordered + row_of(i / heads_, i % heads_) * shape_.width);
      }
    }
  }

  void make_splits() {
    int64_t slots = 0;
    for (size_t b = 0; b < views_.size(); ++b) {
      first_slot_.push_back(slots);
      slots += views_[b].count();
      const int64_t pieces = std::max<int64_t>(1, (views_[b].count() + kSplitSlots / 2) / kSplitSlots);
      cut_parts(views_[b].count(), pieces, {static_cast<int64_t>(b), 0, 0}, splits_);
    }
    scores_ = allocate(slots * shape_.padded);
    for (Part& split : splits_) {
      const bool sums = !views_[split.sequence].aggregated;
      split.largest = allocate(shape_.padded * (sums ? 2 : 1) + shape_.rows * shape_.width * (sums ? 1 : 0));
      split.sums = sums ? split.largest + shape_.padded : nullptr;
      split.out = sums ? split.sums + shape_.padded : nullptr;
    }
  }

  Compute* scores_of(const Part& part) const {
    return scores_ + (first_slot_[part.sequence] + part.begin) * shape_.padded;
  }

  void score(const Part& split) const {
    const SequenceView& view = views_[split.sequence];
    Compute* scores = scores_of(split);
    StoredRows keys = keys_;
    keys.data = static_cast<const char*>(keys_.data) + split.sequence * key_batch_bytes_;
    Passes::score(shape_, keys, view.first + split.begin, split.count,
                  ordered_queries_ + split.sequence * shape_.rows * shape_.width, scores);
    hide_unseen(split, scores);
    Passes::largest(scores, split.count, shape_.padded, split.largest);
    if (!view.aggregated) {
      Passes::weigh({split.count, shape_.padded, split.largest, scores, split.sums, nullptr, nullptr});
      add_rows(view.ids.data() + split.begin, split, scores);
    }
  }

  /// Takes away the scores of slots that this query does not see, though another one of its sequence does.
  void hide_unseen(const Part& split, Compute* scores) const {
    const SequenceView& view = views_[split.sequence];
    const auto hide = [&](int64_t query, int64_t begin, int64_t end) {
      for (int64_t slot = std::max(begin, split.begin); slot < std::min(end, split.begin + split.count);
           ++slot) {
        for (int64_t head = 0; head < heads_; ++head) {
          scores[(slot - split.begin) * shape_.padded + row_of(query, head)] =
              -std::numeric_limits<Compute>::infinity();
        }
      }
    };
    for (int64_t query = 0; query < queries_; ++query) {
      const int64_t last = view.count() - queries_ + query;
      hide(query, 0, last - std::min(left_, last));
      hide(query, last + 1, view.count());
    }
  }

  /// The rows of an int8 table stand for their multiples, so their weights are multiplied instead.
  void add_rows(const int32_t* ids, const Part& part, Compute* weights) const {
    for (int64_t k = 0; row_scale_ != nullptr && k < part.count; ++k) {
      const auto scale = static_cast<Compute>(row_scale_[ids[k]]);
      std::for_each_n(weights + k * shape_.padded, shape_.padded, [&](Compute& weight) { weight *= scale; });
    }
    Passes::add_rows(shape_, table_, ids, weights, part.count, part.out);
  }

  void make_groups_and_ranges() {
    for (size_t b = 0, split = 0; b < views_.size(); ++b) {
      const SequenceView& view = views_[b];
      Compute* largest = view.aggregated ? allocate(shape_.padded) : nullptr;
      for (bool first = true; split < splits_.size() && splits_[split].sequence == static_cast<int64_t>(b);
           ++split, first = false) {
        for (int64_t row = 0; view.aggregated && row < shape_.padded; ++row) {
          largest[row] =
              first ? splits_[split].largest[row] : std::max(largest[row], splits_[split].largest[row]);
        }
      }
      if (!view.aggregated) {
        continue;
      }
      const auto distinct = static_cast<int64_t>(view.distinct.size());
      Part part{static_cast<int64_t>(b), 0, 0, largest};
      const size_t first_group = groups_.size();
      cut_parts(view.count(), std::clamp<int64_t>(view.count() / kGroupSlots, 1, kMostGroups), part, groups_);
      part.groups = static_cast<int64_t>(groups_.size() - first_group);
      part.weights = allocate(part.groups * distinct * shape_.padded);
      for (int64_t i = 0; i < part.groups; ++i) {
        Part& group = groups_[first_group + i];
        group.sums = allocate(shape_.padded);
        group.weights = part.weights + i * distinct * shape_.padded;
      }
      const size_t first_range = ranges_.size();
      cut_parts(distinct, std::max<int64_t>(1, distinct / kRangeRows), part, ranges_);
      for (size_t i = first_range; i < ranges_.size(); ++i) {
        ranges_[i].out = allocate(shape_.rows * shape_.width);
      }
    }
  }

  /// Adds the weights of a group's slots to those of their rows.
  void weigh(const Part& group) const {
    const SequenceView& view = views_[group.sequence];
    std::fill_n(group.weights, view.distinct.size() * shape_.padded, Compute(0));
    Passes::weigh({group.count, shape_.padded, group.largest, scores_of(group), group.sums,
                   view.place.data() + group.begin, group.weights});
  }

  void add_range(const Part& range) const {
    const SequenceView& view = views_[range.sequence];
    Compute* weights = range.weights + range.begin * shape_.padded;
    for (int64_t group = 1; group < range.groups; ++group) {
      const Compute* more = weights + group * static_cast<int64_t>(view.distinct.size()) * shape_.padded;
      std::transform(more, more + range.count * shape_.padded, weights, weights, std::plus<Compute>());
    }
    add_rows(view.distinct.data() + range.begin, range, weights);
  }

  void combine(Compute scale, Compute* out) const {
    std::vector<std::vector<const Part*>> parts(views_.size());
    for (const std::vector<Part>* list : {&splits_, &groups_, &ranges_}) {
      for (const Part& part : *list) {
        parts[part.sequence].push_back(&part);
      }
    }
    const int64_t count = static_cast<int64_t>(views_.size()) * shape_.rows;
    at::parallel_for(0, count, 4, [&](int64_t begin, int64_t end) {
      std::vector<Compute> sum(shape_.width);
      for (int64_t i = begin; i < end; ++i) {
        const int64_t query_and_head = i % shape_.rows;
        const int64_t row = row_of(query_and_head / heads_, query_and_head % heads_);
        const Compute total = add_parts(parts[i / shape_.rows], row, shape_.width, sum.data());
        Passes::reorder(table_.type, sum.data(), 1, shape_.width, true, total == 0 ? 0 : scale / total,
                        out + i * shape_.width);
      }
    });
  }

  QueryGroups shape_;
  int64_t queries_, heads_, left_;
  StoredRows keys_, table_;
  int64_t key_batch_bytes_;
  const float* row_scale_;  ///< or null
  const std::vector<SequenceView>& views_;
  Compute* ordered_queries_ = nullptr;  ///< [batch, rows, width]
  Compute* scores_ = nullptr;           ///< [slots in view of all sequences, padded]
  std::vector<int64_t> first_slot_;     ///< of each sequence, in scores_
  std::vector<Part> splits_, groups_, ranges_;
  std::vector<std::unique_ptr<Compute[]>> buffers_;
};

}  // namespace bov::ops::cpu
