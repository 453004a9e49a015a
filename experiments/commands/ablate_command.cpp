#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "experiments/ablation/cuda_devices.h"
#include "experiments/ablation/grid_console.h"
#include "experiments/ablation/grid_data.h"
#include "experiments/ablation/grid_folder.h"
#include "experiments/ablation/grid_plan.h"
#include "experiments/ablation/grid_runner.h"
#include "experiments/ablation/prepare_data.h"
#include "experiments/ablation/run_selection.h"
#include "experiments/ablation/run_state.h"
#include "experiments/commands/commands.h"
#include "experiments/commands/list_option.h"
#include "experiments/config/grid_config.h"
#include "experiments/file_lock.h"
#include "experiments/grid_files.h"
#include "experiments/report/inspection.h"
#include "experiments/report/number_text.h"
#include "experiments/report/table.h"

namespace bov::experiments {
namespace {

struct AblateArguments {
  std::string grid;
  std::string out;
  std::string data_dir;
  std::optional<int64_t> jobs;
  std::vector<std::string> devices;
  std::vector<std::string> only;
  std::vector<int64_t> seeds;
  std::string shard = "1/1";
  bool dry_run = false;
  bool json = false;
  bool quiet = false;
};

GridConfig load_grid(const AblateArguments& arguments) {
  GridConfig grid = load_grid_config(arguments.grid);
  if (!arguments.seeds.empty()) {
    grid.seeds = arguments.seeds;
    const std::set<int64_t> different(grid.seeds.begin(), grid.seeds.end());
    if (different.size() != grid.seeds.size()) throw std::invalid_argument("--seeds names a seed twice");
  }
  if (!arguments.data_dir.empty()) set_data_folder(grid, arguments.data_dir);
  return grid;
}

GridRunnerOptions runner_options(const AblateArguments& arguments, const GridConfig& grid, size_t runs) {
  GridRunnerOptions options;
  options.devices = visible_cuda_devices(arguments.devices);
  const int64_t wanted = arguments.devices.empty() ? arguments.jobs.value_or(grid.jobs)
                                                   : static_cast<int64_t>(arguments.devices.size());
  options.jobs = std::clamp<int64_t>(wanted, 1, std::max<int64_t>(1, static_cast<int64_t>(runs)));
  const auto cores = static_cast<int64_t>(std::thread::hardware_concurrency());
  options.threads = std::max<int64_t>(1, cores / options.jobs);
  return options;
}

/// With --devices every run goes to a GPU, so no row may name a device of its own.
void check_devices_are_free(const GridConfig& grid) {
  for (const RunConfig& row : grid.rows) {
    if (row.train.device == "auto" || row.train.device == "cuda") continue;
    throw std::invalid_argument("row " + row.name + " has train.device: " + row.train.device +
                                "; --devices expects auto or cuda");
  }
}

void print_dry_run(const GridConfig& grid,
                   const GridPlan& plan,
                   const std::vector<PlannedRun>& runs,
                   bool json) {
  std::set<size_t> selected;
  double flops = 0.0;
  int64_t finished = 0;
  for (const PlannedRun& run : runs) {
    selected.insert(run.row);
    if (read_run_result(run).status == RunStatus::complete) {
      ++finished;
    } else {
      flops += plan.rows[run.row].flops();
    }
  }
  std::vector<Inspection> rows;
  for (const size_t row : selected) rows.push_back(inspect_config(grid.rows[row]));
  if (json) {
    nlohmann::ordered_json report{{"rows", nlohmann::ordered_json::array()},
                                  {"runs", runs.size()},
                                  {"finished", finished},
                                  {"flops_to_do", flops}};
    for (const Inspection& row : rows) report["rows"].push_back(to_json(row));
    std::cout << report.dump(2) << '\n';
    return;
  }
  std::cout << to_table(rows) << '\n'
            << runs.size() << " runs, " << finished << " of them finished; " << scientific_text(flops)
            << " FLOPs to do\n";
}

// What the folder holds by its grid.yaml, to which other processes may have added since this one began; their tables and
// these do not overwrite each other's runs.
GridResult write_tables(const std::filesystem::path& folder, const RunSelection& selection) {
  FileLock one_at_a_time(folder / kGridLockFile);
  one_at_a_time.lock();
  GridPlan plan = plan_grid(load_grid_config(folder / kGridConfigFile), folder);
  find_data(plan, select_runs(plan, selection));
  GridResult result = read_grid_result(plan);
  write_report(result, folder);
  return result;
}

// The table goes to standard output, and the exit status tells whether every selected run has finished.
void report(const GridResult& result,
            const std::filesystem::path& folder,
            const GridOutcome& outcome,
            bool json) {
  std::cout << (json ? json_report(result).dump(2) + "\n" : terminal_report(result)) << std::flush;
  if (outcome.signal != 0) {
    std::cerr << "bov: stopped by a signal; the same command goes on\n";
    throw CLI::RuntimeError(128 + outcome.signal);  // as a shell reports a signal
  }
  if (!outcome.failed.empty()) {
    std::string names;
    for (const std::string& label : outcome.failed) names += (names.empty() ? "" : ", ") + label;
    throw std::runtime_error(std::to_string(outcome.failed.size()) + " runs failed: " + names +
                             "; see log.txt in " + folder.string() + "/ROW/seed-N");
  }
}

void ablate(const AblateArguments& arguments) {
  const Shard shard = parse_shard(arguments.shard);
  GridConfig grid = load_grid(arguments);
  const RunSelection selection{arguments.only, grid.seeds, shard};
  const std::filesystem::path folder = arguments.out.empty() ? std::filesystem::path("runs") / grid.name
                                                             : std::filesystem::path(arguments.out);
  grid = go_on_in_folder(std::move(grid), arguments.grid, folder);
  GridPlan plan = plan_grid(grid, folder);
  const auto runs_on_their_data = [&] {
    find_data(plan, select_runs(plan, selection));
    return select_runs(plan, selection);
  };
  std::vector<PlannedRun> runs = runs_on_their_data();
  if (arguments.dry_run) return print_dry_run(grid, plan, runs, arguments.json);
  // What is wrong with the arguments shows before the data are made.
  const GridRunnerOptions options = runner_options(arguments, grid, runs.size());
  if (!options.devices.empty()) check_devices_are_free(grid);
  const ProgressStyle style = arguments.quiet ? ProgressStyle::none : progress_style_of_stderr();
  if (grid.prepare && !all_finished(runs)) {
    Progress progress(style);
    prepare_data(grid, default_fetch_command(), progress);
    runs = runs_on_their_data();
  }
  require_data(plan, runs);
  join_grid_folder(grid, arguments.grid, folder);
  GridOutcome outcome;
  {
    GridConsole console(style);
    outcome = run_grid(plan, runs, options, console);
  }
  report(write_tables(folder, selection), folder, outcome, arguments.json);
}

}  // namespace

void add_ablate_command(CLI::App& app) {
  auto arguments = std::make_shared<AblateArguments>();
  auto* command =
      app.add_subcommand("ablate", "Train the rows of a grid and print their table and the paper's findings");
  command->footer(
      "Finished runs are skipped and stopped ones go on, so the same command may be given again at any "
      "time.\n"
      "A grid with a `prepare` section makes its data first. Rows and seeds that --out has already stay in "
      "the "
      "tables.\n"
      "Example: bov ablate experiments/configs/quickstart.yaml --jobs 2\n"
      "Job array of four: bov ablate GRID --shard $SLURM_ARRAY_TASK_ID/4   (with --array=1-4)");
  command->add_option("GRID", arguments->grid, "YAML file of the grid")->required()->check(CLI::ExistingFile);
  command->add_option("--out", arguments->out, "Folder of the grid's runs and tables (default: runs/NAME)");
  command->add_option("--data-dir", arguments->data_dir,
                      "Folder that the grid's relative data paths start from (default: the current one)");
  auto* jobs = command->add_option("--jobs", arguments->jobs,
                                   "Runs side by side, which share the cores (default: the grid's)");
  jobs->check(CLI::Range(1, 1024));
  add_list_option(*command, "--devices", arguments->devices,
                  "GPUs, one run on each at a time, for instance 0,1")
      ->excludes(jobs);
  add_list_option(*command, "--only", arguments->only, "Names of the rows to train (default: all)");
  add_list_option(*command, "--seeds", arguments->seeds, "Seeds to train instead of the grid's", 0,
                  std::numeric_limits<int64_t>::max());
  command->add_option("--shard", arguments->shard,
                      "Train the i-th of n equal parts of the runs: i/n, from 1/n to n/n");
  command->add_flag("--dry-run", arguments->dry_run, "Only print what each row costs, and the FLOPs to do");
  command->add_flag("--quiet", arguments->quiet, "Show no progress");
  command->add_flag("--json", arguments->json, "Print the table as JSON");
  command->callback([arguments] { ablate(*arguments); });
}

}  // namespace bov::experiments
