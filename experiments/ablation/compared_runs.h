#pragma once

#include <filesystem>
#include <vector>

#include "experiments/report/grid_result.h"

namespace bov::experiments {

/// The results in `paths` as the rows of one table. A path is the folder of a run (config.yaml), of a row of a grid
/// (seed-1, seed-2, ...) or of a grid (grid.yaml), which gives all its rows. Rows are named by the part of their path
/// that differs. The first row is the baseline; of a grid that comes first, the grid's own. A run counts only as one of
/// its row's config, which outside a grid is that of the row's first seed, and of the data that the first finished run has
/// recorded (find_mismatch; in a single grid the first of each data folder). The data need not be on this machine. Throws
/// std::runtime_error for a path that is none of the three or is given twice, and what reading a config throws.
GridResult read_compared_runs(const std::vector<std::filesystem::path>& paths);

}  // namespace bov::experiments
