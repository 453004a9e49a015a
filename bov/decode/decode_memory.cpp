#include "bov/decode/decode_memory.h"

#include <algorithm>

#include "bov/model/accounting.h"

namespace bov {
namespace {

constexpr int64_t kScaleBytes = 4;

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

/// The tables that replace cached values, and the layers that read them.
struct BankPlan {
  BankPlan(const GPTOptions& options, LongWindow long_window)
      : layout(cache_layout(options, long_window)), width(options.n_kv_head * options.head_dim()) {
    for (const LayerCache& layer : layout.layers) {
      if (layer.need == ValueCacheNeed::token_ids) limits.push_back(layer.limit());
    }
    if (!limits.empty()) rows = count_parameters(options).banks / width;
  }
  /// Positions that the layers keep of a sequence, all layers together.
  int64_t positions(int64_t context) const {
    int64_t sum = 0;
    for (const int64_t limit : limits) sum += std::min(context, limit);
    return sum;
  }

  CacheLayout layout;
  int64_t width;
  std::vector<int64_t> limits;  // of each layer that needs token ids alone
  int64_t rows = 0;             // of all tables
};

int64_t item_size(torch::Dtype dtype) {
  return static_cast<int64_t>(c10::elementSize(dtype));
}

void check(int64_t context, int64_t batch) {
  TORCH_CHECK(context >= 1 && batch >= 1, "decoding memory: context is ", context, " and batch ", batch,
              "; expected 1 or more");
}

}  // namespace

DecodeMemory decode_memory(const GPTOptions& options,
                           LongWindow long_window,
                           int64_t context,
                           int64_t batch) {
  check(context, batch);
  const BankPlan plan(options, long_window);
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
  check(context, batch);
  const BankPlan plan(options, LongWindow::unlimited);
  return plan.width * (static_cast<int64_t>(plan.limits.size()) * batch * context - plan.rows);
}

double saved_fraction(const GPTOptions& options, int64_t context, int64_t batch) {
  const double cache = 2.0 * static_cast<double>(options.n_layer * batch * context) *
                       static_cast<double>(options.n_kv_head * options.head_dim());
  return static_cast<double>(saved_elements(options, context, batch)) / cache;
}

BreakEven break_even(const GPTOptions& options, LongWindow long_window, int64_t batch) {
  check(1, batch);
  const BankPlan plan(options, long_window);
  BreakEven result;
  if (plan.limits.empty()) return result;
  result.plain_context = ceil_div(plan.rows, static_cast<int64_t>(plan.limits.size()) * batch);
  const int64_t most =
      plan.positions(kUnlimitedReach / (2 * batch * static_cast<int64_t>(plan.limits.size())));
  result.windowed_batch = most >= plan.rows ? 1 : ceil_div(plan.rows, most);
  if (most * batch < plan.rows) return result;
  // The positions that are kept grow with the context, so the first context that reaches the tables is found by halving.
  int64_t low = 1, high = plan.rows;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (plan.positions(middle) * batch >= plan.rows) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  result.windowed_context = low;
  return result;
}

}  // namespace bov
