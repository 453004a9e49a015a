#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <filesystem>
#include <functional>

#include "bov/model/bank_conversion.h"
#include "experiments/config/run_config.h"
#include "experiments/data/data_folder.h"
#include "experiments/train/run_model.h"

/// The text that tables of mean values are made from.
namespace bov::experiments {

/// Shows `means` the first `tokens` tokens (0: all) of the training split of `shards`, each exactly once, and returns how
/// many there were. Documents come in the order in which training with `config` reads them first, and are packed as for
/// validation: pieces of at most T - 1 tokens, each after a bos, fill rows of T, and nothing is cropped whatever
/// `packing` says. The values of bos count too, those of padding do not. Calls `on_batch` with the number of tokens so
/// far and wanted, bos counted in neither.
int64_t add_text(ValueMeans& means,
                 const DataFolder& shards,
                 const RunConfig& config,
                 c10::Device device,
                 int64_t tokens,
                 const std::function<void(int64_t seen, int64_t wanted)>& on_batch = {});

/// Token shards of `text` (.txt, .jsonl, either with .gz) by the run's tokenizer, all of it for training, in the new
/// folder `output`; `text` itself if it is a folder of shards. Throws std::runtime_error if the shards are of another
/// tokenizer than the run, and if there is no token among them.
DataFolder calibration_data(const RunCheckpoint& run,
                            const std::filesystem::path& text,
                            const std::filesystem::path& output);

}  // namespace bov::experiments
