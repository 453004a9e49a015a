#include "experiments/report/memory_report.h"

#include <charconv>
#include <stdexcept>
#include <string_view>

#include "experiments/report/number_text.h"
#include "experiments/report/text_table.h"

namespace bov::experiments {
namespace {

[[noreturn]] void refuse(const std::string& text) {
  throw std::invalid_argument("context '" + text +
                              "': expected tokens as 2048, 16K or 1M, or a range 1K..1M");
}

int64_t parse_context(std::string_view part, const std::string& text) {
  int64_t unit = 1;
  if (part.ends_with('K')) unit = int64_t{1} << 10;
  if (part.ends_with('M')) unit = int64_t{1} << 20;
  if (unit > 1) part.remove_suffix(1);
  int64_t number = 0;
  const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), number);
  if (error != std::errc() || end != part.data() + part.size() || number < 1 ||
      number > kLongestContext / unit) {
    refuse(text);
  }
  return number * unit;
}

/// The places of tables under the names that a program may read, and their columns.
struct BreakEvenColumn {
  const char* key;
  const char* title;
  std::optional<ContextRange> BreakEven::*range;
};
constexpr BreakEvenColumn kBreakEvenColumns[] = {{"plain", "device, against V, plain", &BreakEven::plain},
                                                 {"device", "device", &BreakEven::device},
                                                 {"int8", "int8", &BreakEven::int8},
                                                 {"host", "host", &BreakEven::host},
                                                 {"file", "file", &BreakEven::file}};

std::string range_text(const std::optional<ContextRange>& range) {
  if (!range) return "never";
  return std::to_string(range->first) + (range->last ? " to " + std::to_string(*range->last) : " on");
}

nlohmann::ordered_json number_json(const std::optional<int64_t>& number) {
  return number ? nlohmann::ordered_json(*number) : nlohmann::ordered_json();
}

nlohmann::ordered_json range_json(const std::optional<ContextRange>& range) {
  if (!range) return {};
  return {{"first_tokens", range->first}, {"last_tokens", number_json(range->last)}};
}

std::string points_text(const MemoryReport& report) {
  const auto right = [](const char* title) { return TextColumn{title, Align::right}; };
  TextTable table{
      {right("tokens"), right("batch"), right("K"), right("V, plain"), right("V, windows"), right("device"),
       right("int8"), right("host"), right("file"), right("Eq. 6"), right("Fig. 5a")},
      {}};
  for (const MemoryPoint& point : report.points) {
    table.rows.push_back(
        {std::to_string(point.context), std::to_string(point.batch), mebibytes_text(point.memory.cache.keys),
         mebibytes_text(point.memory.plain_values), mebibytes_text(point.memory.with_values.values),
         mebibytes_text(point.with_device_tables()), mebibytes_text(point.with_int8_tables()),
         mebibytes_text(point.with_host_tables()), mebibytes_text(point.without_tables()),
         std::to_string(point.saved_elements), fixed_text(100 * point.saved_fraction, 2) + " %"});
  }
  return render_terminal(table);
}

std::string break_even_text(const MemoryReport& report) {
  TextTable table{{{"batch", Align::right}}, {}};
  for (const BreakEvenColumn& column : kBreakEvenColumns)
    table.columns.emplace_back(column.title, Align::right);
  table.columns.emplace_back("fewest sequences, device", Align::right);
  for (const auto& [batch, at] : report.break_even) {
    std::vector<std::string> row{std::to_string(batch)};
    for (const BreakEvenColumn& column : kBreakEvenColumns) row.push_back(range_text(at.*column.range));
    row.push_back(at.device_batch ? std::to_string(*at.device_batch) : "never");
    table.rows.push_back(row);
  }
  return render_terminal(table);
}

}  // namespace

std::vector<int64_t> parse_contexts(const std::vector<std::string>& texts) {
  std::vector<int64_t> contexts;
  for (const std::string& text : texts) {
    const std::string_view range = text;
    const size_t dots = range.find("..");
    const int64_t first = parse_context(range.substr(0, dots), text);
    const int64_t last = dots == std::string_view::npos ? first : parse_context(range.substr(dots + 2), text);
    if (last < first) refuse(text);
    for (int64_t context = first; context <= last; context *= 2) contexts.push_back(context);
  }
  return contexts;
}

MemoryReport report_memory(const std::string& name,
                           const std::string& device,
                           const GPTOptions& options,
                           LongWindow long_window,
                           const std::vector<int64_t>& contexts,
                           const std::vector<int64_t>& batches) {
  MemoryReport report{.name = name, .device = device, .long_window = long_window};
  for (const int64_t batch : batches) {
    for (const int64_t context : contexts) {
      report.points.push_back({context, batch, decode_memory(options, long_window, context, batch),
                               saved_elements(options, context, batch),
                               saved_fraction(options, context, batch)});
    }
    report.break_even.emplace_back(batch, break_even(options, long_window, batch));
  }
  return report;
}

nlohmann::ordered_json to_json(const MemoryReport& report) {
  nlohmann::ordered_json json;
  json["name"] = report.name;
  json["device"] = report.device;
  json["long_window"] = report.long_window == LongWindow::trained ? "trained" : "unlimited";
  json["points"] = nlohmann::ordered_json::array();
  for (const MemoryPoint& point : report.points) {
    json["points"].push_back({{"tokens", point.context},
                              {"batch", point.batch},
                              {"key_bytes", point.memory.cache.keys},
                              {"plain_value_bytes", point.memory.plain_values},
                              {"windowed_value_bytes", point.memory.with_values.values},
                              {"kept_value_bytes", point.memory.cache.values},
                              {"token_id_bytes", point.memory.cache.token_ids},
                              {"table_bytes", point.memory.tables},
                              {"int8_table_bytes", point.memory.tables_int8},
                              {"rows_seen_bytes", point.memory.rows_seen},
                              {"equation_6_elements", point.saved_elements},
                              {"figure_5a_fraction", point.saved_fraction}});
  }
  json["break_even"] = nlohmann::ordered_json::array();
  for (const auto& [batch, at] : report.break_even) {
    nlohmann::ordered_json line = {{"batch", batch}};
    for (const BreakEvenColumn& column : kBreakEvenColumns) line[column.key] = range_json(at.*column.range);
    line["fewest_sequences"] = number_json(at.device_batch);
    json["break_even"].push_back(std::move(line));
  }
  return json;
}

std::string to_text(const MemoryReport& report) {
  const bool trained = report.long_window == LongWindow::trained;
  return report.name + ": MiB to decode in the dtypes of " + report.device + ", long windows " +
         (trained ? "as trained" : "unlimited") +
         "\nV, plain: every layer keeps every position. V, windows: as far as each window reaches. device, "
         "int8, host,\n"
         "file: V that is kept all the same, ids and the tables, or their rows seen, in the device's "
         "memory.\n\n" +
         points_text(report) +
         "\nContexts in which tables (of host: the rows seen) and ids take less than the values that they "
         "save, windows\nrespected, and the fewest sequences for which there are any\n\n" +
         break_even_text(report);
}

}  // namespace bov::experiments
