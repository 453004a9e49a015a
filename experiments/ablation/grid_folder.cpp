#include "experiments/ablation/grid_folder.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bov/io/atomic_file.h"
#include "experiments/file_lock.h"
#include "experiments/grid_files.h"

namespace bov::experiments {
namespace {

std::string missing_rows(const GridConfig& there, const GridConfig& here) {
  std::string names;
  for (const RunConfig& row : there.rows) {
    const auto is_same_row = [&row](const RunConfig& other) { return other.name == row.name; };
    if (std::ranges::none_of(here.rows, is_same_row)) names += (names.empty() ? "" : ", ") + row.name;
  }
  return names;
}

}  // namespace

GridConfig go_on_in_folder(GridConfig grid,
                           const std::filesystem::path& file,
                           const std::filesystem::path& folder) {
  const std::filesystem::path file_there = folder / kGridConfigFile;
  if (!std::filesystem::exists(file_there)) return grid;
  const GridConfig there = load_grid_config(file_there);
  const auto refuse = [&](const std::string& problem) {
    throw std::runtime_error(problem + "; choose another --out, or remove " + file_there.string() +
                             " to leave its runs out of the tables");
  };
  if (there.name != grid.name) {
    refuse(file_there.string() + " is the grid \"" + there.name + "\", and " + file.string() +
           " the grid \"" + grid.name + "\"");
  }
  if (const std::string rows = missing_rows(there, grid); !rows.empty()) {
    refuse(file_there.string() + " has rows that " + file.string() + " lacks: " + rows);
  }
  std::vector<int64_t> seeds = there.seeds;
  for (const int64_t seed : grid.seeds) {
    if (std::ranges::find(seeds, seed) == seeds.end()) seeds.push_back(seed);
  }
  grid.seeds = std::move(seeds);
  return grid;
}

void join_grid_folder(GridConfig grid,
                      const std::filesystem::path& file,
                      const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  FileLock one_at_a_time(folder / kGridLockFile);
  one_at_a_time.lock();
  grid = go_on_in_folder(std::move(grid), file, folder);
  atomic_write_text(folder / kGridConfigFile, write_grid_config(grid));
}

}  // namespace bov::experiments
