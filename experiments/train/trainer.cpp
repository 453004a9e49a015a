#include "experiments/train/trainer.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>

#include "bov/io/module_state.h"
#include "bov/model/accounting.h"
#include "experiments/config/run_options.h"
#include "experiments/train/model_probe.h"
#include "experiments/train/token_batch.h"

namespace bov::experiments {
namespace {

int64_t micro_batches_per_step(const RunConfig& config) {
  const int64_t tokens = config.train.micro_batch * config.model.sequence_length;
  if (config.train.tokens_per_step % tokens != 0) {
    throw std::invalid_argument("train.tokens_per_step is " + std::to_string(config.train.tokens_per_step) +
                                "; expected a multiple of micro_batch x sequence_length = " +
                                std::to_string(config.train.micro_batch) + " x " +
                                std::to_string(config.model.sequence_length) + " = " +
                                std::to_string(tokens));
  }
  return config.train.tokens_per_step / tokens;
}

GPT build_model(const RunConfig& config, const DataFolder& data, c10::Device device) {
  if (data.vocab_size() > config.model.vocab_size) {
    throw std::invalid_argument("model.vocab_size is " + std::to_string(config.model.vocab_size) +
                                ", but the tokenizer of " + config.data.shards + " has " +
                                std::to_string(data.vocab_size()) + " tokens");
  }
  if (data.validation().size() == 0) {
    throw std::invalid_argument(
        config.data.shards +
        ": the validation split is empty; build the data with a larger --validation-per-mille");
  }
  torch::manual_seed(static_cast<uint64_t>(config.train.seed));
  GPT model(to_gpt_options(config, device.type()));
  model->to(device);
  return model;
}

OptimizerRates optimizer_rates(const OptimizerConfig& config) {
  return {.unembedding = config.unembedding_lr,
          .embedding = config.embedding_lr,
          .matrix = config.matrix_lr,
          .scalar = config.scalar_lr,
          .scalar_beta1 = config.scalar_beta1,
          .alpha_ratio = config.alpha_lr_ratio,
          .alpha_beta1 = config.alpha_beta1,
          .alpha_weight_decay = config.alpha_weight_decay,
          .smear = config.smear_lr,
          .weight_decay = config.weight_decay,
          .batch_scale = config.batch_lr_scale};
}

TrainingSchedule training_schedule(const RunConfig& config) {
  return {.steps = resolve_steps(config),
          .warmup_steps = config.optimizer.warmup_steps,
          .momentum_warmup_steps = config.optimizer.momentum_warmup_steps,
          .warmdown_fraction = config.optimizer.warmdown_fraction,
          .final_lr_fraction = config.optimizer.final_lr_fraction};
}

}  // namespace

Trainer::Trainer(RunConfig config, const DataFolder& data, c10::Device device)
    : config_(std::move(config)),
      data_(data),
      device_(device),
      model_(build_model(config_, data, device)),
      schedule_(training_schedule(config_)),
      optimizer_(model_->named_parameters(),
                 config_.model.n_embd,
                 optimizer_rates(config_.optimizer),
                 schedule_,
                 resolve_muon_dtype(config_.optimizer, device.type())),
      loader_(data.train(), data.bos(), packing_options(config_)),
      micro_batches_(micro_batches_per_step(config_)) {}

double Trainer::step() {
  optimizer_.zero_grad();
  at::Tensor step_loss;
  for (int64_t i = 0; i < micro_batches_; ++i) {
    const auto packed = loader_.next();
    const auto batch = shifted_batch(packed.tokens, packed.rows, device_);
    at::Tensor loss;
    {
      RECORD_USER_SCOPE("forward");
      loss = model_->loss(batch.ids, batch.targets) / micro_batches_;
    }
    {
      RECORD_USER_SCOPE("backward");
      loss.backward();
    }
    // The sum stays on the device: a GPU is not waited for until the step is over.
    step_loss = step_loss.defined() ? step_loss + loss.detach() : loss.detach();
  }
  const auto loss = step_loss.item<double>();
  check_finite(loss, "step " + std::to_string(steps_done_ + 1) + ": the loss");
  {
    RECORD_USER_SCOPE("optimizer");
    optimizer_.step(steps_done_);
  }
  ++steps_done_;
  return loss;
}

double Trainer::flops_per_step() const {
  return static_cast<double>(flops_per_token(model_->options())) * static_cast<double>(tokens_per_step());
}

std::map<std::string, double> Trainer::rates() const {
  return optimizer_.rates(std::max<int64_t>(0, steps_done_ - 1));
}

std::optional<ValidationResult> Trainer::validate(const std::function<bool()>& stop) {
  const auto result = evaluate(model_, data_, device_, validation_options(config_), stop);
  if (result) check_finite(result->nats, after_step() + ": the validation loss");
  return result;
}

TrainerState Trainer::state() {
  if (const auto bad = first_non_finite_tensor(model_); bad && bad->starts_with("parameter")) {
    throw DivergedError(after_step() + ": first bad tensor: " + *bad);
  }
  return {module_state(*model_), optimizer_.state(), steps_done_, loader_.state()};
}

void Trainer::restore(const TrainerState& state) {
  load_parameters(*model_, state.model);
  // A converted checkpoint may lack either, which then begins anew.
  if (!state.optimizer.empty()) optimizer_.load_state(state.optimizer);
  if (!state.loader.is_null()) loader_.restore(state.loader);
  steps_done_ = state.step;
}

std::string Trainer::after_step() const {
  return "after step " + std::to_string(steps_done_);
}

void Trainer::check_finite(double value, const std::string& name) {
  if (std::isfinite(value)) return;
  const auto bad = first_non_finite_tensor(model_);
  throw DivergedError(name + " is " + (std::isnan(value) ? "NaN" : "infinite") + "; first bad tensor: " +
                      bad.value_or("none among parameters and gradients, so the loss itself overflowed"));
}

ValidationOptions validation_options(const RunConfig& config) {
  return {.rows = config.train.micro_batch,
          .sequence_length = config.model.sequence_length,
          .tokens = config.evaluation.tokens,
          .as_published = config.data.packing == "as_published",
          .buffer_documents = config.data.buffer_documents};
}

}  // namespace bov::experiments
