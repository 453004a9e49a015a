#pragma once

#include <vector>

#include "experiments/ablation/grid_plan.h"

/// Runs of one grid are compared with each other, so those of one data folder must have read the same data.
namespace bov::experiments {

/// Notes in every run what its data folder holds. Where there is no folder (the results may have been copied from
/// another machine) it is what the finished runs of that folder have recorded. Throws std::runtime_error naming two of
/// them that differ, and naming a file of a damaged folder.
void find_data(GridPlan& plan);

/// Throws std::runtime_error naming the data folder that a run which has not finished lacks.
void require_data(const std::vector<PlannedRun>& runs);

}  // namespace bov::experiments
