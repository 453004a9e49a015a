#pragma once

#include <filesystem>

#include "experiments/config/grid_config.h"

namespace bov::experiments {

/// `grid`, read from `file`, as it goes on in `folder`: no run that the folder's grid.yaml names leaves the tables. The
/// folder's seeds stay, and those of `grid` that it has not come behind them; rows that it has not are simply new. Throws
/// std::runtime_error naming both grids if the folder's has another name, or rows that `grid` lacks.
GridConfig go_on_in_folder(GridConfig grid,
                           const std::filesystem::path& file,
                           const std::filesystem::path& folder);

/// Makes the folder and writes its grid.yaml: `grid` as it goes on there, see above. Of processes that do so at the same
/// time none loses what another has written.
void join_grid_folder(GridConfig grid,
                      const std::filesystem::path& file,
                      const std::filesystem::path& folder);

}  // namespace bov::experiments
