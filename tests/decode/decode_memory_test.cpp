#include "bov/decode/decode_memory.h"

#include <algorithm>
#include <limits>

#include "bov/value/presets.h"
#include "support/catch.h"

namespace bov {
namespace {

/// The paper's models: 12 layers of width 768, 24 layers of width 1536.
GPTOptions paper_model(int64_t n_layer, int64_t vocab_size) {
  GPTOptions options;
  options.n_layer = n_layer;
  options.n_embd = 64 * n_layer;
  options.n_head = options.n_kv_head = options.n_embd / 128;
  options.vocab_size = vocab_size;
  options.compute_dtype = options.table_dtype = torch::kBFloat16;
  options.value = value_preset("bov");
  return options;
}

TEST_CASE("Eq. 6 and every number of Figure 5a") {
  struct Point {
    int64_t context;
    double small_vocabulary, large_vocabulary;  // percent, read off the figure to 0.01
  };
  for (const Point& point : {Point{16'000, -17.47, -141.60},
                             {32'000, -0.40, -62.47},
                             {64'000, 8.13, -22.90},
                             {128'000, 12.40, -3.12},
                             {256'000, 14.53, 6.78},
                             {512'000, 15.60, 11.72},
                             {1'000'000, 16.12, 14.13},
                             {65'536, 8.33, -21.97},
                             {131'072, 12.50, -2.65},
                             {262'144, 14.58, 7.01},
                             {1'048'576, 16.15, 14.25}}) {
    for (const int64_t n_layer : {12, 24}) {
      INFO(n_layer << " layers, " << point.context << " tokens");
      const GPTOptions small = paper_model(n_layer, 32768), large = paper_model(n_layer, 151936);
      CHECK(100 * saved_fraction(small, point.context, 1) == Approx(point.small_vocabulary).margin(0.0051));
      CHECK(100 * saved_fraction(large, point.context, 1) == Approx(point.large_vocabulary).margin(0.0051));
      CHECK(saved_elements(small, point.context, 1) ==
            n_layer / 3 * small.n_embd * (point.context - small.vocab_size));
    }
  }
  CHECK(saved_elements(paper_model(12, 32768), 32768, 1) == 0);
  CHECK(saved_elements(paper_model(12, 151936), 151936, 1) == 0);
  // The table is shared by a batch.
  CHECK(saved_elements(paper_model(12, 32768), 512, 64) == 0);
}

TEST_CASE("sizes of the paper's tables and caches") {
  constexpr int64_t kMiB = 1 << 20;
  for (const auto& [n_layer, tables, cache, values] :
       std::vector<std::tuple<int64_t, int64_t, int64_t, int64_t>>{{12, 192, 36'864, 6'144},
                                                                   {24, 768, 147'456, 24'576}}) {
    const DecodeMemory memory = decode_memory(paper_model(n_layer, 32768), LongWindow::unlimited, 1000, 1);
    CHECK(memory.tables == tables * kMiB);
    CHECK(memory.plain_keys + memory.plain_values == 1000 * cache);
    CHECK(memory.plain_values == 1000 * 3 * values);
    // A byte an element and four a row.
    const int64_t width = 64 * n_layer;
    CHECK(memory.tables_int8 == n_layer / 3 * 32768 * (width + 4));
  }
}

/// Bytes that `batch` sequences of `context` tokens save by the definition of BreakEven, position by position.
int64_t saved_bytes(const GPTOptions& options, LongWindow long_window, int64_t context, int64_t batch) {
  const CacheLayout layout = cache_layout(options, long_window);
  const auto size_of = [](torch::Dtype dtype) { return static_cast<int64_t>(c10::elementSize(dtype)); };
  const auto kept = [&](const CacheKey& key) { return batch * std::min(context, key.limit); };
  int64_t bytes = 0;
  for (const CacheKey& key : cache_keys(layout)) {
    const bool ids = key.kind == CacheKey::Kind::history || key.kind == CacheKey::Kind::row_numbers;
    if (ids) bytes -= kept(key) * size_of(id_dtype(options.vocab_size));
  }
  for (const int64_t layer : target_layers(options.value, options.n_layer)) {
    bytes += kept(key_cache(layout, layer)) * options.n_kv_head * options.head_dim() *
             size_of(options.compute_dtype);
  }
  return bytes;
}

TEST_CASE("break-even points are where counting says, in every place of the tables") {
  GPTOptions options = paper_model(12, 700);
  options.sequence_length = 300;  // windows reach 128 and 300 back
  for (const bool shared : {false, true}) {
    for (const auto long_window : {LongWindow::trained, LongWindow::unlimited}) {
      for (const int64_t batch : {1, 3, 8}) {
        options.value.shared = shared;
        const BreakEven at = break_even(options, long_window, batch);
        const DecodeMemory memory = decode_memory(options, long_window, 1, 1);
        const auto check = [&](const std::optional<ContextRange>& range, const auto& cost) {
          const auto pays = [&](int64_t context) {
            return saved_bytes(options, long_window, context, batch) > cost(context);
          };
          std::optional<ContextRange> expected;
          constexpr int64_t kCounted = 4000;
          for (int64_t context = 1; context <= kCounted && !(expected && expected->last); ++context) {
            if (!expected && pays(context)) expected = ContextRange{context, std::nullopt};
            if (expected && !pays(context)) expected->last = context - 1;
          }
          INFO("shared " << shared << ", unlimited " << (long_window == LongWindow::unlimited) << ", batch "
                         << batch);
          REQUIRE(range.has_value() == expected.has_value());
          if (!range) return;
          CHECK(range->first == expected->first);
          if (range->last && *range->last > kCounted) {
            CHECK(pays(*range->last));
            CHECK(!pays(*range->last + 1));
          } else {
            CHECK(range->last == expected->last);
          }
        };
        check(at.device, [&](int64_t) { return memory.tables; });
        check(at.int8, [&](int64_t) { return memory.tables_int8; });
        check(at.file, [&](int64_t) { return int64_t{0}; });
        check(at.host, [&](int64_t context) {
          return memory.tables / options.vocab_size * std::min(context * batch, options.vocab_size);
        });
      }
    }
  }
}

TEST_CASE("where a bank saves memory, and where it does not") {
  for (const int64_t n_layer : {12, 24}) {
    const GPTOptions options = paper_model(n_layer, 32768);
    const int64_t value = options.n_embd * 2, targets = n_layer / 3;
    // Against a V cache that respects windows, the published windows never pay for one sequence.
    const BreakEven trained = break_even(options, LongWindow::trained, 1);
    CHECK(!trained.device);
    CHECK(!trained.host);
    CHECK(trained.device_batch == 37);
    CHECK(!break_even(options, LongWindow::trained, 36).device);
    // The history of a longer and longer text takes what the windows' values saved.
    const BreakEven full = break_even(options, LongWindow::trained, 37);
    REQUIRE(full.device.has_value());
    CHECK(full.device->first <= 2049);
    CHECK(full.device->last.has_value());
    // Two bytes an id: the history and the row numbers of both windows.
    const int64_t kept = n_layer == 12 ? 3 * 513 + 2049 : 6 * 513 + 2 * 2049;
    CHECK(trained.file == ContextRange{1, (kept * value - 1) / 2 - 513 - 2049});
    // One token is worth n values less the history and the row numbers of L layers.
    const BreakEven unlimited = break_even(options, LongWindow::unlimited, 1);
    CHECK(unlimited.device_batch == 1);
    CHECK(unlimited.plain == ContextRange{targets * 32768 * value / (targets * value - 4) + 1, std::nullopt});
    GPTOptions all_long = options;
    all_long.window_pattern = "L";
    CHECK(break_even(all_long, LongWindow::unlimited, 1).device == unlimited.plain);
    CHECK(break_even(all_long, LongWindow::unlimited, 8).device ==
          ContextRange{targets * 4096 * value / (targets * value - 4) + 1, std::nullopt});
  }
  CHECK(break_even(paper_model(12, 32768), LongWindow::unlimited, 1).device == ContextRange{129'872, {}});
  GPTOptions standard = paper_model(12, 32768);
  standard.value = value_preset("bov_add");
  const BreakEven never = break_even(standard, LongWindow::unlimited, 1);
  CHECK(!never.plain);
  CHECK(!never.file);
  CHECK(!never.device_batch);
  CHECK(decode_memory(standard, LongWindow::trained, 100, 1).tables == 0);
  CHECK_THROWS_WITH(decode_memory(standard, LongWindow::trained, 0, 1), Catch::Contains("context is 0"));
  CHECK_THROWS_WITH(break_even(standard, LongWindow::trained, 0), Catch::Contains("batch is 0"));
}

TEST_CASE("what cannot be counted is refused") {
  const GPTOptions options = paper_model(12, 32768);
  constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
  CHECK(decode_memory(options, LongWindow::unlimited, kLongestContext, 1000).plain_keys ==
        12 * kLongestContext * 1000 * 768 * 2);
  for (const auto& [context, batch] : std::vector<std::pair<int64_t, int64_t>>{
           {kLongestContext, 1'000'000}, {kLargest, 1}, {1, kLargest}, {kLargest, kLargest}}) {
    const auto message = Catch::Contains("too large to be counted; expected fewer than 2^62 bytes");
    CHECK_THROWS_WITH(decode_memory(options, LongWindow::trained, context, batch), message);
    CHECK_THROWS_WITH(saved_elements(options, context, batch), message);
    CHECK_THROWS_WITH(saved_fraction(options, context, batch), message);
    CHECK_THROWS_WITH(cache_bytes(cache_layout(options, LongWindow::trained), context, batch), message);
  }
  // No sequence is too many for a break-even point: it is counted a sequence.
  CHECK(break_even(options, LongWindow::trained, kLargest).device->first == 1);
}

TEST_CASE("caches of the published windows") {
  const GPTOptions options = paper_model(12, 32768);
  const DecodeMemory memory = decode_memory(options, LongWindow::trained, 1'000'000, 1);
  // Nine S layers keep 513 positions and three L layers 2049, of 768 bf16 numbers.
  CHECK(memory.cache.keys == (9 * 513 + 3 * 2049) * 768 * 2);
  CHECK(memory.with_values.values == memory.cache.keys);
  // Layers 8 to 10 are S and 11 is L: 3588 positions.
  CHECK(memory.with_values.values - memory.cache.values == 3588 * 768 * 2);
  // The history and a ring of row numbers for each of the two windows, two bytes an id.
  CHECK(memory.cache.token_ids == 2 * (cache_capacity(1'000'000, kUnlimitedReach) + 513 + 2049));
}

}  // namespace
}  // namespace bov
