#include "bov/decode/decode_memory.h"

#include <algorithm>
#include <set>
#include <vector>

#include "bov/model/accounting.h"

namespace bov {
namespace {

constexpr int64_t kScaleBytes = 4;

/// The tables that replace cached values, and the layers that read them.
struct BankPlan {
  BankPlan(const GPTOptions& options, LongWindow long_window)
      : layout(cache_layout(options, long_window)), width(options.n_kv_head * options.head_dim()) {
    for (const LayerCache& layer : layout.layers) {
      if (layer.need == ValueCacheNeed::token_ids) limits.push_back(layer.limit());
    }
    if (!limits.empty()) rows = count_parameters(options).banks / width;
  }
  CacheLayout layout;
  int64_t width;
  std::vector<int64_t> limits;  // of each layer that needs token ids alone
  int64_t rows = 0;             // of all tables
};

int64_t item_size(torch::Dtype dtype) {
  return static_cast<int64_t>(c10::elementSize(dtype));
}

void check(const BankPlan& plan, int64_t context, int64_t batch) {
  TORCH_CHECK(context >= 1 && batch >= 1, "decoding memory: context is ", context, " and batch ", batch,
              "; expected 1 or more");
  check_countable(plan.layout, context, batch);
}

/// Bytes that one sequence saves by contexts: the values of layers that need token ids alone, less the ids.
class Saving {
 public:
  explicit Saving(const BankPlan& plan, torch::Dtype values)
      : limits_(plan.limits),
        value_bytes_(plan.width * item_size(values)),
        id_bytes_(item_size(id_dtype(plan.layout.vocab_size))) {}

  int64_t at(int64_t context) const {
    int64_t values = 0, ids = context;  // the history, then a ring of row numbers for each window
    for (const int64_t limit : limits_) values += std::min(context, limit);
    for (const int64_t limit : std::set<int64_t>(limits_.begin(), limits_.end()))
      ids += std::min(context, limit);
    return values * value_bytes_ - ids * id_bytes_;
  }
  /// Between two of these, in order, at() is linear.
  std::vector<int64_t> kinks() const {
    std::set<int64_t> kinks{1, kLongestContext};
    for (const int64_t limit : limits_) kinks.insert(std::min(limit, kLongestContext));
    return {kinks.begin(), kinks.end()};
  }
  int64_t most() const {
    int64_t most = 0;
    for (const int64_t context : kinks()) most = std::max(most, at(context));
    return most;
  }

 private:
  std::vector<int64_t> limits_;
  int64_t value_bytes_;
  int64_t id_bytes_;
};

/// The first context from `begin` on for which `holds`. From one of `kinks` to the next its value changes once at most.
template <typename Holds>
std::optional<int64_t> first_context(const std::vector<int64_t>& kinks, int64_t begin, const Holds& holds) {
  for (const int64_t kink : kinks) {
    if (kink < begin) continue;
    int64_t high = kink;
    if (!holds(high)) {
      begin = high + 1;
      continue;
    }
    while (begin < high) {
      const int64_t middle = begin + (high - begin) / 2;
      if (holds(middle)) {
        high = middle;
      } else {
        begin = middle + 1;
      }
    }
    return begin;
  }
  return std::nullopt;
}

template <typename Pays>
std::optional<ContextRange> paying_contexts(const std::vector<int64_t>& kinks, const Pays& pays) {
  const auto first = first_context(kinks, 1, pays);
  if (!first) return std::nullopt;
  const auto end = first_context(kinks, *first, [&](int64_t context) { return !pays(context); });
  return ContextRange{*first, end ? std::optional(*end - 1) : std::nullopt};
}

/// A cost that all sequences share, against what each of `batch` saves.
std::optional<ContextRange> paying_contexts(const Saving& saving, int64_t cost, int64_t batch) {
  return paying_contexts(saving.kinks(), [&](int64_t context) { return saving.at(context) > cost / batch; });
}

/// The same where the cost grows with the tokens of all sequences, until each of `rows` is there.
std::optional<ContextRange> paying_contexts(const Saving& saving,
                                            int64_t row_bytes,
                                            int64_t rows,
                                            int64_t batch) {
  std::vector<int64_t> kinks = saving.kinks();
  const int64_t all_seen = rows / batch;  // by the tokens of each sequence
  for (const int64_t kink : {all_seen, all_seen + 1}) {
    if (kink >= 1 && kink <= kLongestContext) {
      kinks.insert(std::upper_bound(kinks.begin(), kinks.end(), kink), kink);
    }
  }
  return paying_contexts(kinks, [&](int64_t context) {
    const int64_t cost = context > all_seen ? row_bytes * rows / batch : row_bytes * context;
    return saving.at(context) > cost;
  });
}

}  // namespace

DecodeMemory decode_memory(const GPTOptions& options,
                           LongWindow long_window,
                           int64_t context,
                           int64_t batch) {
  const BankPlan plan(options, long_window);
  check(plan, context, batch);
  CacheLayout with_values = plan.layout;
  for (LayerCache& layer : with_values.layers) layer.need = ValueCacheNeed::own_values;
  const int64_t tables = plan.rows / options.vocab_size;
  const int64_t row_bytes = plan.width * item_size(options.table_dtype);

  DecodeMemory memory;
  memory.cache = cache_bytes(plan.layout, context, batch);
  memory.with_values = cache_bytes(with_values, context, batch);
  memory.plain_keys = options.n_layer * batch * context * plan.width * item_size(options.compute_dtype);
  memory.plain_values = memory.plain_keys;
  memory.tables = plan.rows * row_bytes;
  memory.tables_int8 = plan.rows * (plan.width + kScaleBytes);
  memory.rows_seen =
      tables * row_bytes * cache_capacity(std::min(context * batch, options.vocab_size), options.vocab_size);
  return memory;
}

int64_t saved_elements(const GPTOptions& options, int64_t context, int64_t batch) {
  const BankPlan plan(options, LongWindow::unlimited);
  check(plan, context, batch);
  return plan.width * (static_cast<int64_t>(plan.limits.size()) * batch * context - plan.rows);
}

double saved_fraction(const GPTOptions& options, int64_t context, int64_t batch) {
  const auto saved = static_cast<double>(saved_elements(options, context, batch));
  return saved /
         static_cast<double>(2 * options.n_layer * batch * context * options.n_kv_head * options.head_dim());
}

BreakEven break_even(const GPTOptions& options, LongWindow long_window, int64_t batch) {
  const BankPlan plan(options, long_window);
  check(plan, kLongestContext, 1);
  TORCH_CHECK(batch >= 1, "break-even: batch is ", batch, "; expected 1 or more");
  BreakEven result;
  if (plan.limits.empty()) return result;
  BankPlan without_windows = plan;
  without_windows.limits.assign(plan.limits.size(), kLongestContext);
  const Saving saving(plan, options.compute_dtype), plain(without_windows, options.compute_dtype);
  const DecodeMemory memory = decode_memory(options, long_window, 1, 1);
  result.plain = paying_contexts(plain, memory.tables, batch);
  result.device = paying_contexts(saving, memory.tables, batch);
  result.int8 = paying_contexts(saving, memory.tables_int8, batch);
  result.host = paying_contexts(saving, memory.tables / options.vocab_size, options.vocab_size, batch);
  result.file = paying_contexts(saving, /*cost=*/0, batch);
  if (saving.most() > 0) result.device_batch = memory.tables / saving.most() + 1;
  return result;
}

}  // namespace bov
