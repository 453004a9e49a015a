#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bov/decode/decode_memory.h"

/// What decoding takes in memory: a V cache against tables in each place.
namespace bov::experiments {

/// Numbers of tokens: each text is one, "2048", "16K" (16·1024) or "1M" (1024²), or a range by doubling ("1K..1M"). Throws
/// std::invalid_argument naming the text and what was expected.
std::vector<int64_t> parse_contexts(const std::vector<std::string>& texts);

struct MemoryPoint {
  int64_t context = 0;
  int64_t batch = 0;
  DecodeMemory memory;
  int64_t saved_elements = 0;  ///< Eq. 6
  double saved_fraction = 0;   ///< Figure 5a

  /// Bytes in the computing device's memory in place of a V cache: what V must be kept all the same, ids, tables.
  int64_t with_device_tables() const { return without_tables() + memory.tables; }
  int64_t with_int8_tables() const { return without_tables() + memory.tables_int8; }
  int64_t with_host_tables() const { return without_tables() + memory.rows_seen; }
  int64_t without_tables() const { return memory.cache.values + memory.cache.token_ids; }
};

struct MemoryReport {
  std::string name;    ///< of the config
  std::string device;  ///< the `auto` dtypes are those of this device
  LongWindow long_window = LongWindow::trained;
  std::vector<MemoryPoint> points;
  std::vector<std::pair<int64_t, BreakEven>> break_even;  ///< by batch
};

MemoryReport report_memory(const std::string& name,
                           const std::string& device,
                           const GPTOptions& options,
                           LongWindow long_window,
                           const std::vector<int64_t>& contexts,
                           const std::vector<int64_t>& batches);

nlohmann::ordered_json to_json(const MemoryReport& report);
/// A page for a terminal.
std::string to_text(const MemoryReport& report);

}  // namespace bov::experiments
