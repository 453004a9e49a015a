#include "bov/decode/decode_memory.h"

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

TEST_CASE("where a bank saves memory, and where it does not") {
  for (const int64_t n_layer : {12, 24}) {
    const GPTOptions options = paper_model(n_layer, 32768);
    // Against a V cache that respects windows, the published windows never pay for one sequence.
    const BreakEven trained = break_even(options, LongWindow::trained, 1);
    CHECK(trained.plain_context == 32768);
    CHECK(!trained.windowed_context);
    CHECK(trained.windowed_batch == 37);
    CHECK(break_even(options, LongWindow::trained, 37).windowed_context.has_value());
    CHECK(!break_even(options, LongWindow::trained, 36).windowed_context);
    const BreakEven unlimited = break_even(options, LongWindow::unlimited, 1);
    CHECK(unlimited.windowed_context == 129'533);
    CHECK(unlimited.windowed_batch == 1);
    GPTOptions all_long = options;
    all_long.window_pattern = "L";
    CHECK(break_even(all_long, LongWindow::unlimited, 1).windowed_context == 32768);
    CHECK(break_even(all_long, LongWindow::unlimited, 8).windowed_context == 4096);
    GPTOptions shared = all_long;
    shared.value.shared = true;
    CHECK(break_even(shared, LongWindow::unlimited, 1).plain_context == 32768 / (n_layer / 3));
  }
  GPTOptions standard = paper_model(12, 32768);
  standard.value = value_preset("bov_add");
  CHECK(!break_even(standard, LongWindow::unlimited, 1).plain_context);
  CHECK(decode_memory(standard, LongWindow::trained, 100, 1).tables == 0);
  CHECK_THROWS_WITH(decode_memory(standard, LongWindow::trained, 0, 1), Catch::Contains("context is 0"));
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
