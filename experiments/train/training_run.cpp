#include "experiments/train/training_run.h"

#include <csignal>

#include "experiments/config/run_options.h"
#include "experiments/train/model_probe.h"
#include "experiments/train/training_record.h"

namespace bov::experiments {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Every `interval` steps and at the last one; an interval of 0 is at the last one alone.
bool is_due(int64_t step, int64_t interval, int64_t last) {
  return step == last || (interval > 0 && step % interval == 0);
}

class TrainingRun {
 public:
  explicit TrainingRun(const TrainingRequest& request)
      : request_(request),
        config_(request.config),
        device_(resolve_device(config_.train, request.device)),
        folder_(request.folder, config_),
        progress_(request.progress) {}

  TrainingOutcome run();

 private:
  TrainingOutcome train();
  void open_data();
  void go_on_from_checkpoint();
  bool stop_requested() const { return signal_.received() != 0; }
  void evaluate_if_due();
  void checkpoint_if_due();
  void save_checkpoint();
  void step();
  nlohmann::json row() const { return metrics_row(*trainer_, tally_); }
  nlohmann::json result(const char* status) const {
    return run_result(status, config_, *trainer_, *log_, tally_);
  }
  TrainingOutcome interrupted();
  TrainingOutcome diverged(const DivergedError& error);

  const TrainingRequest& request_;
  const RunConfig& config_;
  c10::Device device_;
  RunFolder folder_;
  Progress progress_;
  StopSignal signal_;
  std::optional<DataFolder> data_;
  std::optional<Trainer> trainer_;
  std::optional<MetricsLog> log_;
  RunTally tally_;
  int64_t checkpoint_step_ = -1;  // of the newest checkpoint
  int64_t first_step_ = 0;        // where this process began
  double seconds_before_ = 0;
};

TrainingOutcome outcome_of_earlier_run(const nlohmann::json& result, const std::filesystem::path& folder) {
  TrainingOutcome outcome;
  outcome.was_over = true;
  outcome.result = result;
  if (result.value("status", "") == "diverged") {
    outcome.status = TrainingStatus::diverged;
    outcome.message = folder.string() + ": this run has diverged: " + result.value("error", "") +
                      "; --fresh starts it anew";
  } else {
    outcome.message = folder.string() + ": this run is finished; --fresh starts it anew";
  }
  return outcome;
}

TrainingOutcome TrainingRun::run() {
  if (!request_.fresh) {
    folder_.check_same_config();
    if (const auto result = folder_.result()) {
      // The data may be gone by now. If they are there, the result must be theirs.
      if (DataFolder::exists(config_.data.shards)) {
        folder_.check_same_data(DataFolder::open(config_.data.shards).identity());
      }
      return outcome_of_earlier_run(*result, folder_.path());
    }
  }
  open_data();
  if (!request_.fresh) folder_.check_same_data(data_->identity());
  trainer_.emplace(config_, *data_, device_);
  // All that can fail early has been tried.
  if (request_.fresh) folder_.clear();
  folder_.write_config();
  go_on_from_checkpoint();
  folder_.record_start(trainer_->steps_done(), data_->identity());
  try {
    return train();
  } catch (const DivergedError& error) {
    return diverged(error);
  }
}

void TrainingRun::open_data() {
  data_.emplace(DataFolder::open(config_.data.shards));
  if (!data_->verify_if_quick()) {
    progress_.message(config_.data.shards +
                      ": too large to compare every checksum at each start; `bov data info " +
                      config_.data.shards + " --verify` does");
  }
}

void TrainingRun::go_on_from_checkpoint() {
  if (const auto checkpoint = restore_training(folder_, *trainer_, tally_, progress_)) {
    checkpoint_step_ = trainer_->steps_done();
    progress_.message("going on from " + checkpoint->string());
  }
  first_step_ = trainer_->steps_done();
  seconds_before_ = tally_.training_seconds;
  log_.emplace(folder_.metrics_file(), first_step_);
  // A checkpoint is older than the evaluation of its step.
  if (log_->has_evaluation(first_step_)) {
    tally_.evaluation_seconds =
        log_->last_evaluation().value("time", tally_.seconds()) - tally_.training_seconds;
  }
}

TrainingOutcome TrainingRun::train() {
  while (true) {
    // First of all, so that nothing that goes wrong in an evaluation costs the training.
    checkpoint_if_due();
    evaluate_if_due();
    if (stop_requested()) return interrupted();
    if (trainer_->steps_done() == trainer_->total_steps()) break;
    step();
  }
  TrainingOutcome outcome;
  outcome.result = result("completed");
  folder_.write_result(outcome.result);
  outcome.message = folder_.path().string() + ": finished";
  return outcome;
}

void TrainingRun::evaluate_if_due() {
  const int64_t step = trainer_->steps_done();
  if (!is_due(step, config_.evaluation.every, trainer_->total_steps()) || log_->has_evaluation(step)) return;
  const auto start = Clock::now();
  const auto validation = trainer_->validate([this] { return stop_requested(); });
  tally_.evaluation_seconds += seconds_since(start);
  if (!validation) return;
  auto evaluation = row();
  evaluation["validation_bpb"] = validation->bits_per_byte;
  evaluation["validation_loss"] = validation->loss;
  evaluation["validation_tokens"] = validation->tokens;
  evaluation["validation_bytes"] = validation->bytes;
  log_->append(evaluation);
  progress_.evaluation(step, validation->bits_per_byte);
}

void TrainingRun::checkpoint_if_due() {
  const int64_t step = trainer_->steps_done();
  if (step > 0 && step != checkpoint_step_ &&
      is_due(step, config_.checkpoint.every, trainer_->total_steps())) {
    save_checkpoint();
  }
}

void TrainingRun::save_checkpoint() {
  log_->flush();
  save_training(folder_, *trainer_, tally_, config_.checkpoint.keep);
  checkpoint_step_ = trainer_->steps_done();
}

void TrainingRun::step() {
  const int64_t next = trainer_->steps_done() + 1;
  const int64_t total = trainer_->total_steps();
  const bool with_coefficients = is_due(next, config_.log.coefficients_every, total);
  // Gates are means over a whole micro-batch, so the newest pass stands for the step.
  const GateRecording recording(trainer_->model(), with_coefficients);
  const auto start = Clock::now();
  const double loss = trainer_->step();
  const double seconds = seconds_since(start);
  tally_.training_seconds += seconds;
  tally_.loss = loss;

  const bool log_interval = is_due(next, config_.log.every, total);
  if (log_interval || with_coefficients) {
    auto metrics = row();
    metrics["loss"] = loss;
    metrics["rates"] = trainer_->rates();
    metrics["tokens_per_second"] = static_cast<double>(trainer_->tokens_per_step()) / seconds;
    if (with_coefficients) metrics["coefficients"] = value_coefficients(trainer_->model());
    log_->append(metrics);
  }
  const double mean_seconds =
      (tally_.training_seconds - seconds_before_) / static_cast<double>(next - first_step_);
  progress_.step({.step = next,
                  .total = total,
                  .loss = loss,
                  .tokens_per_second = static_cast<double>(trainer_->tokens_per_step()) / mean_seconds,
                  .seconds_left = mean_seconds * static_cast<double>(total - next),
                  .log_interval = log_interval});
}

TrainingOutcome TrainingRun::interrupted() {
  if (trainer_->steps_done() != checkpoint_step_) save_checkpoint();
  TrainingOutcome outcome;
  outcome.status = TrainingStatus::interrupted;
  outcome.signal = signal_.received();
  outcome.message = folder_.path().string() + ": stopped by " +
                    (outcome.signal == SIGINT ? "SIGINT" : "SIGTERM") + " after step " +
                    std::to_string(trainer_->steps_done()) + "; the same command goes on from its checkpoint";
  return outcome;
}

TrainingOutcome TrainingRun::diverged(const DivergedError& error) {
  TrainingOutcome outcome;
  outcome.status = TrainingStatus::diverged;
  outcome.result = result("diverged");
  outcome.result["error"] = error.what();
  folder_.write_result(outcome.result);
  outcome.message =
      folder_.path().string() + ": diverged: " + error.what() +
      (checkpoint_step_ >= 0 ? "; checkpoint of step " + std::to_string(checkpoint_step_) + " is kept"
                             : "; no checkpoint had been written");
  return outcome;
}

}  // namespace

TrainingOutcome run_training(const TrainingRequest& request) {
  return TrainingRun(request).run();
}

}  // namespace bov::experiments
