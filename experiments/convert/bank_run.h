#pragma once

#include <cstdint>
#include <optional>

#include "bov/io/checkpoint.h"
#include "bov/model/bank_conversion.h"
#include "experiments/config/run_config.h"

/// Runs whose model is turned into one with tables.
namespace bov::experiments {

/// The config of the run that `model`, made from a run of `config`, belongs to. Without `tokens` it goes on with the
/// training of `config`, in as many steps though its FLOPs differ; with `tokens` it is a training of so many tokens.
RunConfig bank_run_config(RunConfig config, const BankModel& model, std::optional<int64_t> tokens);

/// The checkpoint of that run, made from `source`, whose model was turned into `model`. Going on, it keeps step, data
/// position and the optimizer's state, in which new parameters begin at zero; a `new_training` begins at step 0 with a
/// new optimizer at the data position of `source`.
CheckpointContents bank_checkpoint(CheckpointContents source, const BankModel& model, bool new_training);

}  // namespace bov::experiments
