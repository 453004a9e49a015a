#include "experiments/ablation/run_selection.h"

#include <algorithm>
#include <charconv>
#include <stdexcept>

namespace bov::experiments {
namespace {

void check_row_names(const GridPlan& plan, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const auto is_named = [&name](const GridRow& row) { return row.name == name; };
    if (std::any_of(plan.rows.begin(), plan.rows.end(), is_named)) continue;
    std::string known;
    for (const GridRow& row : plan.rows) known += (known.empty() ? "" : ", ") + row.name;
    throw std::invalid_argument("grid " + plan.name + " has no row \"" + name + "\"; its rows are " + known);
  }
}

}  // namespace

Shard parse_shard(const std::string& text) {
  Shard shard;
  const char* const end = text.data() + text.size();
  const auto index = std::from_chars(text.data(), end, shard.index);
  if (index.ec == std::errc() && index.ptr != end && *index.ptr == '/') {
    const auto count = std::from_chars(index.ptr + 1, end, shard.count);
    if (count.ec == std::errc() && count.ptr == end && 1 <= shard.index && shard.index <= shard.count)
      return shard;
  }
  throw std::invalid_argument("shard is \"" + text + "\"; expected i/n with 1 <= i <= n, for instance 2/4");
}

std::vector<PlannedRun> select_runs(const GridPlan& plan, const RunSelection& selection) {
  const auto& [rows, seeds, shard] = selection;
  check_row_names(plan, rows);
  std::vector<PlannedRun> selected;
  int64_t position = 0;
  for (const PlannedRun& run : plan.runs) {
    const std::string& name = plan.rows[run.row].name;
    if (!rows.empty() && std::find(rows.begin(), rows.end(), name) == rows.end()) continue;
    if (!seeds.empty() && std::find(seeds.begin(), seeds.end(), run.seed) == seeds.end()) continue;
    if (position++ % shard.count == shard.index - 1) selected.push_back(run);
  }
  return selected;
}

}  // namespace bov::experiments
