#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>

#include "bov/io/checkpoint.h"
#include "bov/model/bank_conversion.h"
#include "experiments/data/data_folder.h"
#include "experiments/train/run_model.h"

/// Runs whose model is turned into one with tables.
namespace bov::experiments {

/// The config of the run that `model`, made from a run of `config`, belongs to. Without `tokens` it goes on with the
/// training of `config`, in as many steps though its FLOPs differ; with `tokens` it is a training of so many tokens.
RunConfig bank_run_config(RunConfig config, const BankModel& model, std::optional<int64_t> tokens);

/// The checkpoint of that run, made from `source`, whose model was turned into `model`. Going on, it keeps step, data
/// position and the optimizer's state, in which new parameters begin at zero; a `new_training` begins at step 0 with a
/// new optimizer at the data position of `source`.
CheckpointContents bank_checkpoint(CheckpointContents source, const BankModel& model, bool new_training);

/// Shows a ValueMeans at least `tokens` of the training split of `shards` (0: as many as it has), in the rows and the
/// order that training with `config` takes them in. Calls `on_batch` with the number of tokens so far and
/// wanted.
void add_training_text(ValueMeans& means,
                       const DataFolder& shards,
                       const RunConfig& config,
                       c10::Device device,
                       int64_t tokens,
                       const std::function<void(int64_t seen, int64_t wanted)>& on_batch);

/// Token shards of `text` (.txt, .jsonl, either with .gz) by the run's tokenizer, all of it for training, in the new
/// folder `output`; `text` itself if it is a folder of shards. Throws std::runtime_error if the shards are of another
/// tokenizer than the run.
DataFolder calibration_data(const RunCheckpoint& run,
                            const std::filesystem::path& text,
                            const std::filesystem::path& output);

}  // namespace bov::experiments
