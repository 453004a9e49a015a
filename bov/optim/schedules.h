#pragma once

#include <cstdint>

#include "bov/export.h"

namespace bov {

/// Schedules of the published recipe (arXiv 2606.02780, table 6) over a run of `steps` optimizer steps.
/// Iterations count from 0; every function accepts 0 <= it <= steps (the published loop passes it = steps
/// once, to evaluate) and throws c10::Error outside. "Warmdown 0.65" there means the last 65 % of training.
struct BOV_API TrainingSchedule {
  int64_t steps = 0;                    ///< N, at least 1
  int64_t warmup_steps = 40;            ///< learning rate rises linearly; 0: no warmup
  int64_t momentum_warmup_steps = 400;  ///< Muon momentum rises from 0.85 to 0.97; 0: no warmup
  double warmdown_fraction = 0.65;      ///< in [0, 1]
  double final_lr_fraction = 0.05;      ///< multiplier that the warmdown approaches

  /// W = warmdown_fraction·N, rounded half to even as Python rounds.
  int64_t warmdown_steps() const;

  /// Multiplier of every learning rate: (it+1)/warmup_steps, then 1, then linear from 1 to final_lr_fraction. Throws
  /// c10::Error for an iteration outside [0, steps], as the next two do.
  double learning_rate(int64_t it) const;

  /// Muon's momentum: 0.85 to 0.97 in the warmup, 0.97, and 0.97 to 0.90 in the warmdown. The warmup goes
  /// first where the two meet. Throws the same.
  double muon_momentum(int64_t it) const;

  /// Multiplier of Muon's weight decay: (1 + cos(π·it/N))/2. Throws the same.
  double muon_weight_decay(int64_t it) const;

  /// Throws c10::Error naming the field and its value.
  void validate() const;
};

}  // namespace bov
