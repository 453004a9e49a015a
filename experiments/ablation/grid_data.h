#pragma once

#include <vector>

#include "experiments/ablation/grid_plan.h"

/// Runs that are compared with each other must have read the same data, if they name one data folder.
namespace bov::experiments {

/// Notes in every run what the finished runs of its data folder have read: what the first of them that has recorded it
/// has. The data themselves need not be on this machine.
void find_recorded_data(GridPlan& plan);

/// Notes in every run what its data folder holds. A folder that is not there, or that none of `selected` reads, is taken
/// from the records as above: the results may have been copied from another machine. Throws std::runtime_error naming a
/// file of a damaged folder.
void find_data(GridPlan& plan, const std::vector<PlannedRun>& selected);

/// Whether each of `runs` has finished.
bool all_finished(const std::vector<PlannedRun>& runs);

/// Throws std::runtime_error naming the first run of `plan` in `runs` that has not finished, how it stands and the data
/// folder that it lacks.
void require_data(const GridPlan& plan, const std::vector<PlannedRun>& runs);

}  // namespace bov::experiments
