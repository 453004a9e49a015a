#include "experiments/ablation/grid_data.h"

#include <algorithm>
#include <map>
#include <stdexcept>

#include "experiments/ablation/run_state.h"
#include "experiments/data/data_folder.h"
#include "experiments/train/run_folder.h"

namespace bov::experiments {
namespace {

using DataByFolder = std::map<std::filesystem::path, nlohmann::json>;

// What the finished runs have recorded, as far as `known` does not tell.
void complete_from_records(GridPlan& plan, DataByFolder& known) {
  for (PlannedRun& run : plan.runs) {
    run.data = nullptr;
    if (!known.contains(run.shards) && read_run_result(run).status == RunStatus::complete) {
      nlohmann::json recorded = recorded_data(run.folder);
      if (!recorded.is_null()) known[run.shards] = std::move(recorded);
    }
  }
  for (PlannedRun& run : plan.runs) run.data = known[run.shards];
}

bool is_finished(const PlannedRun& run) {
  return read_run_result(run).status == RunStatus::complete;
}

}  // namespace

void find_recorded_data(GridPlan& plan) {
  DataByFolder known;
  complete_from_records(plan, known);
}

void find_data(GridPlan& plan, const std::vector<PlannedRun>& selected) {
  DataByFolder known;
  for (const PlannedRun& run : selected) {
    if (!known.contains(run.shards) && DataFolder::exists(run.shards))
      known[run.shards] = DataFolder::open(run.shards).identity();
  }
  complete_from_records(plan, known);
}

bool all_finished(const std::vector<PlannedRun>& runs) {
  return std::ranges::all_of(runs, is_finished);
}

void require_data(const GridPlan& plan, const std::vector<PlannedRun>& runs) {
  for (const PlannedRun& run : runs) {
    if (DataFolder::exists(run.shards) || is_finished(run)) continue;
    try {
      DataFolder::open(run.shards);  // says what is missing
    } catch (const std::runtime_error& error) {
      throw std::runtime_error(plan.rows.at(run.row).name + " " + describe(read_run_result(run)) + "; " +
                               error.what());
    }
  }
}

}  // namespace bov::experiments
