#include "experiments/ablation/grid_data.h"

#include <map>
#include <stdexcept>

#include "experiments/ablation/run_state.h"
#include "experiments/data/data_folder.h"
#include "experiments/data/data_identity.h"
#include "experiments/train/run_folder.h"

namespace bov::experiments {
namespace {

// What the finished runs on `shards` have recorded; null if none has.
nlohmann::json recorded_by_runs(const std::vector<PlannedRun>& runs, const std::filesystem::path& shards) {
  nlohmann::json recorded;
  std::filesystem::path recorded_in;
  for (const PlannedRun& run : runs) {
    if (run.shards != shards || read_run_result(run).status != RunStatus::complete) continue;
    const nlohmann::json found = recorded_data(run.folder);
    if (found.is_null()) continue;
    if (recorded.is_null()) {
      recorded = found;
      recorded_in = run.folder;
    } else if (const std::string difference = identity_difference(recorded, found); !difference.empty()) {
      throw std::runtime_error("the runs in " + recorded_in.string() + " (there) and " + run.folder.string() +
                               " (here) read different data and cannot be compared: " + difference);
    }
  }
  return recorded;
}

}  // namespace

void find_data(GridPlan& plan) {
  std::map<std::filesystem::path, nlohmann::json> known;
  for (const PlannedRun& run : plan.runs) {
    if (known.contains(run.shards)) continue;
    known[run.shards] = DataFolder::exists(run.shards) ? DataFolder::open(run.shards).identity()
                                                       : recorded_by_runs(plan.runs, run.shards);
  }
  for (PlannedRun& run : plan.runs) run.data = known[run.shards];
}

void require_data(const std::vector<PlannedRun>& runs) {
  for (const PlannedRun& run : runs) {
    // Opening it says what is missing.
    if (!DataFolder::exists(run.shards) && read_run_result(run).status != RunStatus::complete)
      DataFolder::open(run.shards);
  }
}

}  // namespace bov::experiments
