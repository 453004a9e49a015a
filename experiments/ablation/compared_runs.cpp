#include "experiments/ablation/compared_runs.h"

#include <algorithm>
#include <set>
#include <stdexcept>
#include <string>

#include "experiments/ablation/grid_plan.h"
#include "experiments/ablation/run_state.h"
#include "experiments/config/grid_config.h"
#include "experiments/config/yaml_config.h"

namespace bov::experiments {
namespace {

using std::filesystem::path;

struct ComparedRow {
  path folder;
  RowResult result;
};

ComparedRow read_runs(const path& folder, const std::vector<path>& run_folders) {
  ComparedRow row{folder, {}};
  for (const path& run : run_folders) {
    const RunConfig config = load_run_config(run / "config.yaml");
    if (row.result.runs.empty()) row.result.row = plan_row(config);
    row.result.runs.push_back(read_run_folder(run, config.train.seed));
  }
  return row;
}

// Folders of the runs of a row, by ascending seed.
std::vector<path> seed_folders(const path& row) {
  std::vector<std::pair<int64_t, path>> found;
  for (const auto& entry : std::filesystem::directory_iterator(row)) {
    if (!std::filesystem::exists(entry.path() / "config.yaml")) continue;
    const std::string name = entry.path().filename().string();
    if (name.starts_with("seed-") && name.size() > 5 &&
        name.find_first_not_of("0123456789", 5) == std::string::npos) {
      found.emplace_back(std::stoll(name.substr(5)), entry.path());
    }
  }
  std::sort(found.begin(), found.end());
  std::vector<path> folders;
  for (const auto& [seed, folder] : found) folders.push_back(folder);
  return folders;
}

// Records are read whatever their config's hash: who compares folders wants what they hold.
std::vector<ComparedRow> read_grid(const GridPlan& plan) {
  std::vector<ComparedRow> rows;
  for (const GridRow& row : plan.rows) rows.push_back({plan.folder / row.name, {row, {}}});
  for (const PlannedRun& run : plan.runs)
    rows[run.row].result.runs.push_back(read_run_folder(run.folder, run.seed));
  return rows;
}

// The paths without the folders that they all begin with.
std::vector<std::string> distinct_names(const std::vector<ComparedRow>& rows) {
  const path& first = rows.front().folder;
  auto common = std::distance(first.begin(), first.end()) - 1;
  for (const ComparedRow& row : rows) {
    const path& other = row.folder;
    const auto length = std::distance(other.begin(), other.end()) - 1;
    const auto end = std::next(first.begin(), std::min(common, length));
    common = std::distance(first.begin(), std::mismatch(first.begin(), end, other.begin()).first);
  }
  std::vector<std::string> names;
  for (const ComparedRow& row : rows) {
    path name;
    for (auto part = std::next(row.folder.begin(), common); part != row.folder.end(); ++part) name /= *part;
    names.push_back(name.string());
  }
  return names;
}

}  // namespace

GridResult read_compared_runs(const std::vector<path>& paths) {
  std::vector<ComparedRow> rows;
  size_t baseline = 0;
  std::string name = "comparison";
  for (const path& given : paths) {
    // Without the empty last part that a closing slash gives.
    const path folder = (given / "").lexically_normal().parent_path();
    if (std::filesystem::exists(folder / "grid.yaml")) {
      const GridPlan plan = plan_grid(load_grid_config(folder / "grid.yaml"), folder);
      if (paths.size() == 1) name = plan.name;
      for (const ComparedRow& row : read_grid(plan)) {
        if (&given == &paths.front() && row.result.row.name == plan.baseline) baseline = rows.size();
        rows.push_back(row);
      }
      continue;
    }
    const bool is_run = std::filesystem::exists(folder / "config.yaml");
    const auto runs = is_run ? std::vector<path>{folder} : seed_folders(folder);
    if (runs.empty()) {
      throw std::runtime_error(
          folder.string() + ": neither a run (config.yaml), a row (seed-N folders) nor a grid (grid.yaml)");
    }
    rows.push_back(read_runs(folder, runs));
  }
  const std::vector<std::string> names = distinct_names(rows);
  GridResult result{.name = name, .baseline = names.at(baseline), .rows = {}};
  std::set<std::string> seen;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!seen.insert(names[i]).second) throw std::runtime_error(rows[i].folder.string() + " is given twice");
    rows[i].result.row.name = names[i];
    result.rows.push_back(std::move(rows[i].result));
  }
  return result;
}

}  // namespace bov::experiments
