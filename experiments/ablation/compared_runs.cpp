#include "experiments/ablation/compared_runs.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <stdexcept>
#include <string>

#include "experiments/ablation/grid_data.h"
#include "experiments/ablation/grid_plan.h"
#include "experiments/ablation/run_state.h"
#include "experiments/config/grid_config.h"
#include "experiments/config/yaml_config.h"
#include "experiments/grid_files.h"
#include "experiments/train/run_files.h"

namespace bov::experiments {
namespace {

using std::filesystem::path;

// The folders of a row's runs by seed.
using SeedFolders = std::map<int64_t, path>;

SeedFolders seed_folders(const path& row) {
  SeedFolders found;
  for (const auto& entry : std::filesystem::directory_iterator(row)) {
    const std::string name = entry.path().filename().string();
    if (!entry.is_directory() || !name.starts_with("seed-")) continue;
    // A name that is not how a seed is spelled, with a leading zero or too many digits, is none of the grid's.
    int64_t seed = -1;
    std::from_chars(name.data() + 5, name.data() + name.size(), seed);
    if (seed >= 0 && name == "seed-" + std::to_string(seed)) found[seed] = entry.path();
  }
  return found;
}

bool is_run(const path& folder) {
  return std::filesystem::exists(folder / kRunConfigFile);
}

// Everything that is compared, as one plan whose rows are `folders`.
struct Comparison {
  GridPlan plan{.name = "comparison", .folder = "", .baseline = "", .rows = {}, .seeds = {}, .runs = {}};
  std::vector<path> folders;
  size_t baseline = 0;

  void add_grid(const path& folder) {
    const GridPlan grid = plan_grid(load_grid_config(folder / kGridConfigFile), folder);
    const size_t first = plan.rows.size();
    for (const GridRow& row : grid.rows) {
      if (first == 0 && row.name == grid.baseline) baseline = plan.rows.size();
      add_row(folder / row.name, row);
    }
    for (PlannedRun run : grid.runs) {
      run.row += first;
      plan.runs.push_back(std::move(run));
    }
    plan.name = grid.name;
  }

  // The runs of a row that no grid describes must be runs of the first one's config.
  void add_runs(const path& folder) {
    SeedFolders runs;
    if (is_run(folder)) {
      runs[load_run_config(folder / kRunConfigFile).train.seed] = folder;
    } else {
      runs = seed_folders(folder);
    }
    const auto first =
        std::ranges::find_if(runs, [](const auto& seed_and_run) { return is_run(seed_and_run.second); });
    if (first == runs.end()) {
      throw std::runtime_error(
          folder.string() + ": neither a run (config.yaml), a row (seed-N folders) nor a grid (grid.yaml)");
    }
    RunConfig config = load_run_config(first->second / kRunConfigFile);
    for (const auto& [seed, run] : runs) {
      config.train.seed = seed;
      plan.runs.push_back({.row = plan.rows.size(),
                           .seed = seed,
                           .folder = run,
                           .config = config,
                           .shards = config.data.shards,
                           .data = nullptr});
    }
    add_row(folder, plan_row(config));
  }

 private:
  void add_row(const path& folder, const GridRow& row) {
    folders.push_back(folder);
    plan.rows.push_back(row);
  }
};

// The paths without the folders that they all begin with.
std::vector<std::string> distinct_names(const std::vector<path>& folders) {
  const path& first = folders.front();
  auto common = std::distance(first.begin(), first.end()) - 1;
  for (const path& other : folders) {
    const auto length = std::distance(other.begin(), other.end()) - 1;
    const auto end = std::next(first.begin(), std::min(common, length));
    common = std::distance(first.begin(), std::mismatch(first.begin(), end, other.begin()).first);
  }
  std::vector<std::string> names;
  for (const path& folder : folders) {
    path name;
    for (auto part = std::next(folder.begin(), common); part != folder.end(); ++part) name /= *part;
    names.push_back(name.string());
  }
  return names;
}

}  // namespace

GridResult read_compared_runs(const std::vector<path>& paths) {
  Comparison comparison;
  GridPlan& plan = comparison.plan;
  for (const path& given : paths) {
    // Without the empty last part that a closing slash gives.
    const path folder = (given / "").lexically_normal().parent_path();
    if (std::filesystem::exists(folder / kGridConfigFile)) {
      comparison.add_grid(folder);
    } else {
      comparison.add_runs(folder);
    }
  }
  if (paths.size() > 1) {
    plan.name = "comparison";
    // All are compared with each other, wherever their data lay.
    for (PlannedRun& run : plan.runs) run.shards.clear();
  }
  const std::vector<std::string> names = distinct_names(comparison.folders);
  std::set<std::string> seen;
  for (size_t i = 0; i < names.size(); ++i) {
    if (!seen.insert(names[i]).second) {
      throw std::runtime_error(comparison.folders[i].string() + " is given twice");
    }
    plan.rows[i].name = names[i];
  }
  plan.baseline = names.at(comparison.baseline);
  find_recorded_data(plan);
  return read_grid_result(plan);
}

}  // namespace bov::experiments
