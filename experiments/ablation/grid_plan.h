#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "experiments/config/run_config.h"
#include "experiments/report/grid_result.h"

namespace bov::experiments {

struct GridConfig;

/// One training run of a grid.
struct PlannedRun {
  size_t row = 0;  ///< index in GridPlan::rows
  int64_t seed = 0;
  std::filesystem::path folder;  ///< <grid folder>/<row>/seed-<seed>
  RunConfig config;              ///< the row's, with the seed
  std::filesystem::path shards;  ///< data folder: runs of one have read the same data
  nlohmann::json data;  ///< its identity (DataFolder::identity), null where it is unknown (grid_data.h)
};

/// Everything that a grid will do, as plain data: no file is touched, no tensor made.
struct GridPlan {
  std::string name;
  std::filesystem::path folder;
  std::string baseline;
  std::vector<GridRow> rows;
  std::vector<int64_t> seeds;
  std::vector<PlannedRun>
      runs;  ///< all rows of the first seed, then of the second: half a grid is already a table
};

/// "bov seed 2"
inline std::string run_label(const GridPlan& plan, const PlannedRun& run) {
  return plan.rows.at(run.row).name + " seed " + std::to_string(run.seed);
}

/// What a table says of a config before anything is trained. Throws if its model is impossible.
GridRow plan_row(const RunConfig& config);

/// The plan of `grid` in `folder`. Throws if a row's model is impossible.
GridPlan plan_grid(const GridConfig& grid, const std::filesystem::path& folder);

}  // namespace bov::experiments
