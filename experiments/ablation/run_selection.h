#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/ablation/grid_plan.h"

namespace bov::experiments {

/// Part `index` of `count` equal parts, counted from 1.
struct Shard {
  int64_t index = 1;
  int64_t count = 1;
};

/// Reads "2/4". Throws std::invalid_argument naming the text unless 1 <= i <= n.
Shard parse_shard(const std::string& text);

/// Some of a grid's runs.
struct RunSelection {
  std::vector<std::string> rows;  ///< names; empty: all
  std::vector<int64_t> seeds;     ///< empty: all
  Shard shard;  ///< of the runs of those rows and seeds: over all shards each run exactly once
};

/// Throws std::invalid_argument naming a row that the grid does not have, and those it has.
std::vector<PlannedRun> select_runs(const GridPlan& plan, const RunSelection& selection);

}  // namespace bov::experiments
