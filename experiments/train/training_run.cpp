#include "experiments/train/training_run.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <csignal>
#include <stdexcept>
#include <utility>

#include "bov/io/checkpoint.h"
#include "bov/model/accounting.h"
#include "experiments/config/run_options.h"
#include "experiments/environment.h"
#include "experiments/train/model_probe.h"

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

/// Gates are means over a whole micro-batch, so the newest pass stands for the step.
class GateRecording {
 public:
  GateRecording(GPT& model, bool on) : model_(model), on_(on) {
    if (on_) record_gates(model_, true);
  }
  ~GateRecording() {
    if (on_) record_gates(model_, false);
  }

 private:
  GPT& model_;
  bool on_;
};

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
  nlohmann::json row() const;
  nlohmann::json result(const char* status) const;
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
  int64_t checkpoint_step_ = -1;  // of the newest checkpoint
  double training_seconds_ = 0;   // in optimizer steps, over all processes of the run
  double evaluation_seconds_ = 0;
  int64_t first_step_ = 0;  // where this process began
  double seconds_before_ = 0;
  nlohmann::json last_loss_;
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
  const auto latest = latest_checkpoint(folder_.checkpoints());
  for (const auto& skipped : latest.skipped) {
    progress_.message("skipped " + skipped.path.string() + ": " + skipped.reason);
  }
  if (latest.path) {
    auto contents = load_checkpoint(*latest.path);
    try {
      const auto metadata = nlohmann::json::parse(contents.metadata);
      if (metadata.at("config_hash") != folder_.config_hash()) {
        throw std::runtime_error(latest.path->string() +
                                 ": is of another config than the folder's config.yaml");
      }
      trainer_->restore(
          {std::move(contents.model), std::move(contents.optimizer), contents.step, metadata.at("loader")});
      training_seconds_ = metadata.at("training_seconds");
      evaluation_seconds_ = metadata.at("evaluation_seconds");
      last_loss_ = metadata.at("loss");
    } catch (const nlohmann::json::exception& error) {
      throw std::runtime_error((*latest.path / "manifest.json").string() + " is damaged: " + error.what());
    }
    checkpoint_step_ = contents.step;
    progress_.message("going on from " + latest.path->string());
  }
  first_step_ = trainer_->steps_done();
  seconds_before_ = training_seconds_;
  log_.emplace(folder_.metrics_file(), first_step_);
  // A checkpoint is older than the evaluation of its step.
  if (log_->has_evaluation(first_step_)) {
    evaluation_seconds_ =
        log_->last_evaluation().value("time", training_seconds_ + evaluation_seconds_) - training_seconds_;
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
  evaluation_seconds_ += seconds_since(start);
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
  auto state = trainer_->state();
  const nlohmann::json metadata = {{"config_hash", folder_.config_hash()},
                                   {"loader", std::move(state.loader)},
                                   {"loss", last_loss_},
                                   {"training_seconds", training_seconds_},
                                   {"evaluation_seconds", evaluation_seconds_}};
  log_->flush();
  bov::save_checkpoint(folder_.checkpoints(), {.step = state.step,
                                               .model = std::move(state.model),
                                               .optimizer = std::move(state.optimizer),
                                               .state = {},
                                               .metadata = metadata.dump()});
  checkpoint_step_ = state.step;
  prune_checkpoints(folder_.checkpoints(), config_.checkpoint.keep);
}

void TrainingRun::step() {
  const int64_t next = trainer_->steps_done() + 1;
  const int64_t total = trainer_->total_steps();
  const bool with_coefficients = is_due(next, config_.log.coefficients_every, total);
  const GateRecording recording(trainer_->model(), with_coefficients);
  const auto start = Clock::now();
  const double loss = trainer_->step();
  const double seconds = seconds_since(start);
  training_seconds_ += seconds;
  last_loss_ = loss;

  const bool log_interval = is_due(next, config_.log.every, total);
  if (log_interval || with_coefficients) {
    auto metrics = row();
    metrics["loss"] = loss;
    metrics["rates"] = trainer_->rates();
    metrics["tokens_per_second"] = static_cast<double>(trainer_->tokens_per_step()) / seconds;
    if (with_coefficients) metrics["coefficients"] = value_coefficients(trainer_->model());
    log_->append(metrics);
  }
  const double mean_seconds = (training_seconds_ - seconds_before_) / static_cast<double>(next - first_step_);
  progress_.step({.step = next,
                  .total = total,
                  .loss = loss,
                  .tokens_per_second = static_cast<double>(trainer_->tokens_per_step()) / mean_seconds,
                  .seconds_left = mean_seconds * static_cast<double>(total - next),
                  .log_interval = log_interval});
}

nlohmann::json TrainingRun::row() const {
  const int64_t step = trainer_->steps_done();
  return {{"step", step},
          {"tokens", step * trainer_->tokens_per_step()},
          {"flops", static_cast<double>(step) * trainer_->flops_per_step()},
          {"time", training_seconds_ + evaluation_seconds_}};
}

nlohmann::json TrainingRun::result(const char* status) const {
  auto result = row();
  result.erase("time");
  result["status"] = status;
  result["name"] = config_.name;
  result["seed"] = config_.train.seed;
  result["config_hash"] = folder_.config_hash();
  result["parameters"] = count_parameters(to_gpt_options(config_, trainer_->device().type())).total();
  result["loss"] = last_loss_;
  for (const char* key : {"validation_bpb", "validation_loss", "validation_tokens", "validation_bytes"}) {
    if (log_->last_evaluation().contains(key)) result[key] = log_->last_evaluation()[key];
  }
  result["coefficients"] = log_->last_coefficients();
  result["training_seconds"] = training_seconds_;
  result["evaluation_seconds"] = evaluation_seconds_;
  if (training_seconds_ > 0) result["tokens_per_second"] = result["tokens"].get<double>() / training_seconds_;
  result["threads"] = at::get_num_threads();
  result["peak_memory_bytes"] = peak_memory_bytes();
  return result;
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
