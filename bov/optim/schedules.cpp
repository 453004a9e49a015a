#include "bov/optim/schedules.h"

#include <c10/util/Exception.h>

#include <cmath>
#include <numbers>

namespace bov {
namespace {

constexpr double kFirstMomentum = 0.85;
constexpr double kFullMomentum = 0.97;
constexpr double kLastMomentum = 0.90;

void check_iteration(int64_t it, int64_t steps) {
  TORCH_CHECK(0 <= it && it <= steps, "TrainingSchedule: iteration must be in [0, ", steps, "], got ", it);
}

}  // namespace

int64_t TrainingSchedule::warmdown_steps() const {
  // nearbyint rounds half to even in the default floating-point environment.
  return static_cast<int64_t>(std::nearbyint(warmdown_fraction * static_cast<double>(steps)));
}

double TrainingSchedule::learning_rate(int64_t it) const {
  check_iteration(it, steps);
  if (it < warmup_steps) return static_cast<double>(it + 1) / static_cast<double>(warmup_steps);
  const int64_t warmdown = warmdown_steps();
  if (it <= steps - warmdown) return 1.0;
  const double remaining = static_cast<double>(steps - it) / static_cast<double>(warmdown);
  return remaining + (1.0 - remaining) * final_lr_fraction;
}

double TrainingSchedule::muon_momentum(int64_t it) const {
  check_iteration(it, steps);
  if (it < momentum_warmup_steps) {
    const double progress = static_cast<double>(it) / static_cast<double>(momentum_warmup_steps);
    return kFirstMomentum + (kFullMomentum - kFirstMomentum) * progress;
  }
  const int64_t warmdown = warmdown_steps();
  const int64_t since_warmdown = it - (steps - warmdown);
  if (since_warmdown <= 0) return kFullMomentum;
  const double progress = static_cast<double>(since_warmdown) / static_cast<double>(warmdown);
  return kFullMomentum * (1.0 - progress) + kLastMomentum * progress;
}

double TrainingSchedule::muon_weight_decay(int64_t it) const {
  check_iteration(it, steps);
  return 0.5 * (1.0 + std::cos(std::numbers::pi * static_cast<double>(it) / static_cast<double>(steps)));
}

void TrainingSchedule::validate() const {
  TORCH_CHECK(steps >= 1, "TrainingSchedule: steps must be at least 1, got ", steps);
  TORCH_CHECK(warmup_steps >= 0, "TrainingSchedule: warmup_steps must be at least 0, got ", warmup_steps);
  TORCH_CHECK(momentum_warmup_steps >= 0, "TrainingSchedule: momentum_warmup_steps must be at least 0, got ",
              momentum_warmup_steps);
  TORCH_CHECK(0 <= warmdown_fraction && warmdown_fraction <= 1,
              "TrainingSchedule: warmdown_fraction must be in [0, 1], got ", warmdown_fraction);
  TORCH_CHECK(0 <= final_lr_fraction && final_lr_fraction <= 1,
              "TrainingSchedule: final_lr_fraction must be in [0, 1], got ", final_lr_fraction);
}

}  // namespace bov
