#pragma once

#include <c10/core/Device.h>

#include <filesystem>

#include "bov/decode/bank_store.h"
#include "experiments/config/run_config.h"

namespace bov::experiments {

/// A checkpoint of a run and where it lies.
struct RunCheckpoint {
  std::filesystem::path run_folder;
  std::filesystem::path checkpoint;  ///< RUN/checkpoints/step-N
  RunConfig config;                  ///< of the run
};

/// The checkpoint `path`, or the newest one of the run's folder `path`. Throws std::runtime_error if there is none, or if
/// the newest is damaged and no older one is left.
RunCheckpoint find_checkpoint(const std::filesystem::path& path);

/// The model of a checkpoint and its step. Dtypes that follow the device are those of `device`; int8 tables are multiplied
/// out. Throws as load_checkpoint, and std::runtime_error naming the checkpoint and the tensors that are not the config's.
struct RunModel {
  GPT model{nullptr};
  int64_t step = 0;
};
RunModel load_run_model(const RunCheckpoint& run, c10::Device device);

/// Where E_V is while the model decodes.
enum class TablePlace { device, host, file };

/// A model for decoding and its tables, which are in the store alone where they replace cached values; int8 rows stay int8.
/// With `host` and `file` the tables are left in the checkpoint's file, and its checksum is not verified. Throws std::invalid_argument for `host` and `file` if no table replaces cached
/// values, as where they are no function of the token id, and for `file` on another device than the CPU.
struct DecodingModel {
  GPT model{nullptr};
  std::shared_ptr<BankStore> banks;
};
DecodingModel load_decoding_model(const RunCheckpoint& run, c10::Device device, TablePlace place);

}  // namespace bov::experiments
