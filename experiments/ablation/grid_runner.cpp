#include "experiments/ablation/grid_runner.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <exception>
#include <list>
#include <memory>
#include <optional>
#include <thread>

#include "experiments/ablation/child_process.h"
#include "experiments/ablation/run_state.h"
#include "experiments/report/number_text.h"
#include "experiments/report/table.h"
#include "experiments/train/run_files.h"
#include "experiments/train/stop_signal.h"

namespace bov::experiments {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPollInterval{100};
// Reading the logs of all runs more often shows nothing new to a person.
constexpr std::chrono::milliseconds kProgressInterval{500};

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string describe_exit(const ChildExit& exit, const std::string& last_line) {
  if (exit.signal != 0) return std::string("killed by signal ") + strsignal(exit.signal);
  return last_line.empty() ? "exit status " + std::to_string(exit.status) + " without a word" : last_line;
}

// One run that is being trained.
struct ActiveRun {
  const PlannedRun* run;
  std::unique_ptr<ChildProcess> process;
  std::string device;      // of the list of devices; empty without one
  int64_t first_step = 0;  // where this process took over
  RunProgress progress;
};

class GridSession {
 public:
  GridSession(const GridPlan& plan, const GridRunnerOptions& options, GridConsole& console)
      : plan_(plan),
        options_(options),
        console_(console),
        free_devices_(options.devices.begin(), options.devices.end()) {}

  GridOutcome run(const std::vector<PlannedRun>& runs) {
    enqueue(runs);
    const StopSignal stop;
    while (!active_.empty() || (!queue_.empty() && outcome_.signal == 0)) {
      while (outcome_.signal == 0 && !queue_.empty() && free_slot()) start_next();
      if (const int signal = stop.received(); signal != 0 && outcome_.signal == 0) pass_on(signal);
      reap();
      show_progress();
      if (!active_.empty()) std::this_thread::sleep_for(kPollInterval);
    }
    return outcome_;
  }

 private:
  void enqueue(const std::vector<PlannedRun>& runs) {
    total_ = static_cast<int64_t>(runs.size());
    int64_t unknown_data = 0;
    for (const PlannedRun& run : runs) {
      const RunResult result = read_run_result(run);
      if (result.status == RunStatus::complete) {
        ++outcome_.skipped;
        unknown_data += result.data_recorded ? 0 : 1;
      } else {
        queue_.push_back(&run);
      }
    }
    if (outcome_.skipped > 0) {
      console_.message(std::to_string(outcome_.skipped) + " of " + std::to_string(total_) +
                       " runs have finished before and are skipped" +
                       (unknown_data == 0 ? ""
                                          : "; " + std::to_string(unknown_data) +
                                                " of them have not recorded which data they read"));
    }
  }

  bool free_slot() const {
    return static_cast<int64_t>(active_.size()) < options_.jobs &&
           (options_.devices.empty() || !free_devices_.empty());
  }

  void start_next() {
    const PlannedRun& run = *queue_.front();
    queue_.pop_front();
    try {
      start(run);
    } catch (const std::exception& error) {
      fail(run, error.what());
    }
  }

  void start(const PlannedRun& run) {
    const std::string label = run_label(plan_, run);
    if (const auto replaced = prepare_run_folder(run)) {
      console_.message(label + ": the folder held a run of " + replaced->difference + ", kept as " +
                       replaced->folder.string());
    }
    ActiveRun active{.run = &run, .process = nullptr, .device = "", .progress = {}};
    if (const auto step = read_newest_step(run.folder)) active.first_step = step->step;
    active.progress = {
        .label = label, .step = active.first_step, .steps = plan_.rows[run.row].steps, .loss = {}};
    if (!free_devices_.empty()) active.device = free_devices_.front();
    active.process = std::make_unique<ChildProcess>(child_options(run, active.device));
    if (!free_devices_.empty()) free_devices_.pop_front();
    console_.message(
        label +
        (active.first_step > 0 ? ": continues near step " + std::to_string(active.first_step) : ": starts") +
        (active.device.empty() ? "" : " on device " + active.device));
    active_.push_back(std::move(active));
  }

  ChildOptions child_options(const PlannedRun& run, const std::string& device) const {
    const std::string threads = std::to_string(options_.threads);
    ChildOptions child{
        .command = options_.trainer_command, .environment = {}, .log = run.folder / kRunLogFile};
    for (const std::string& argument :
         {(run.folder / kRunConfigFile).string(), std::string("--run-dir"), run.folder.string(),
          std::string("--threads"), threads, std::string("--quiet")}) {
      child.command.push_back(argument);
    }
    child.environment["OMP_NUM_THREADS"] = threads;
    if (!device.empty()) {
      // Never the CPU, should the GPU not be there.
      child.command.insert(child.command.end(), {"--device", "cuda"});
      child.environment["CUDA_VISIBLE_DEVICES"] = device;
    }
    return child;
  }

  void pass_on(int signal) {
    outcome_.signal = signal;
    console_.message(std::string(strsignal(signal)) + ": " + std::to_string(active_.size()) +
                     " runs write a checkpoint and stop; a second signal kills them");
    for (const ActiveRun& active : active_) active.process->send(signal);
  }

  void reap() {
    for (auto active = active_.begin(); active != active_.end();) {
      const auto exit = active->process->poll();
      if (!exit) {
        ++active;
        continue;
      }
      if (!active->device.empty()) free_devices_.push_back(active->device);
      add_work(*active);
      finish(*active->run, *exit);
      active = active_.erase(active);
    }
  }

  void finish(const PlannedRun& run, const ChildExit& exit) {
    const RunResult result = read_run_result(run);
    const std::string label = run_label(plan_, run);
    if (result.status == RunStatus::complete) {
      ++outcome_.completed;
      console_.message(label + ": " + fixed_text(result.bits_per_byte, 4) + " bits per byte");
      rewrite_tables();
    } else if (outcome_.signal != 0) {
      console_.message(label + ": stopped");
    } else if (exit.succeeded()) {
      fail(run, "the trainer ended without a result");
    } else {
      fail(run, describe_exit(exit, last_log_line(run.folder)));
    }
  }

  void fail(const PlannedRun& run, const std::string& error) {
    outcome_.failed.push_back(run_label(plan_, run));
    console_.message(run_label(plan_, run) + ": failed: " + error + " (" +
                     (run.folder / kRunLogFile).string() + ")");
    try {
      write_failure(run, error);
    } catch (const std::exception& unwritable) {
      console_.message(unwritable.what());
    }
    rewrite_tables();
  }

  // A table that cannot be written now, on a full disk for instance, must not end the runs.
  void rewrite_tables() {
    try {
      write_report(read_grid_result(plan_), plan_.folder);
    } catch (const std::exception& error) {
      console_.message(error.what());
    }
  }

  double cost(const PlannedRun& run, int64_t steps) const {
    const GridRow& row = plan_.rows[run.row];
    return row.flops() * static_cast<double>(steps) / static_cast<double>(row.steps);
  }

  void add_work(const ActiveRun& active) {
    work_done_ += cost(*active.run, active.progress.step - active.first_step);
  }

  void show_progress() {
    if (Clock::now() < next_progress_) return;
    next_progress_ = Clock::now() + kProgressInterval;
    GridProgress progress{.finished = total_ - static_cast<int64_t>(queue_.size() + active_.size()),
                          .total = total_,
                          .seconds_left = {},
                          .running = {}};
    double done = work_done_;
    double left = 0.0;
    for (const PlannedRun* run : queue_) left += cost(*run, plan_.rows[run->row].steps);
    for (ActiveRun& active : active_) {
      if (const auto newest = read_newest_step(active.run->folder)) {
        active.progress.step = std::max(active.first_step, newest->step);
        active.progress.loss = newest->loss;
      }
      done += cost(*active.run, active.progress.step - active.first_step);
      left += cost(*active.run, active.progress.steps - active.progress.step);
      progress.running.push_back(active.progress);
    }
    if (done > 0.0) progress.seconds_left = left / done * seconds_since(started_);
    console_.update(progress);
  }

  const GridPlan& plan_;
  const GridRunnerOptions& options_;
  GridConsole& console_;
  std::deque<std::string> free_devices_;
  std::deque<const PlannedRun*> queue_;
  std::list<ActiveRun> active_;
  GridOutcome outcome_;
  int64_t total_ = 0;
  double work_done_ = 0.0;  // FLOPs of the runs that ended since this start
  Clock::time_point started_ = Clock::now();
  Clock::time_point next_progress_ = started_;
};

}  // namespace

GridOutcome run_grid(const GridPlan& plan,
                     const std::vector<PlannedRun>& runs,
                     const GridRunnerOptions& options,
                     GridConsole& console) {
  return GridSession(plan, options, console).run(runs);
}

}  // namespace bov::experiments
