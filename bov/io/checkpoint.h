#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "bov/io/safetensors.h"
#include "bov/io/tensor_rows.h"

/// Checkpoints of a run: folders `step-N` that hold model.safetensors, optimizer.safetensors, state.safetensors and
/// manifest.json (step, format version, the caller's metadata, size and CRC-32 of each file). A folder is written under
/// the temporary name `step-N.tmp-PID` and renamed when it is durable, so a `step-N` is never half a checkpoint.
namespace bov {

/// All that a checkpoint holds.
struct BOV_API CheckpointContents {
  int64_t step = 0;     ///< optimizer steps done
  TensorMap model;      ///< parameters by name
  TensorMap optimizer;  ///< optimizer state; its file is left out if empty
  TensorMap state;  ///< whatever else is a tensor, as random generator states; its file is left out if empty
  std::string metadata = "{}";        ///< JSON text of the caller: config, data position, ...
  TensorRowsMap model_rows = {};      ///< more of `model`, made while written; empty after load_checkpoint
  TensorRowsMap optimizer_rows = {};  ///< the same of `optimizer`
};

/// Writes `checkpoints`/step-N, creating `checkpoints` if needed, and returns its path. An existing step-N is replaced.
/// Throws std::runtime_error naming the path and the system's reason if anything fails: nothing is left of the attempt,
/// and the checkpoints that were there are untouched. Throws the same if `metadata` is no JSON, and c10::Error for a
/// negative step or a tensor that save_safetensors refuses.
BOV_API std::filesystem::path save_checkpoint(const std::filesystem::path& checkpoints,
                                              const CheckpointContents& contents);

/// What load_checkpoint reads. `model` needs no other file than model.safetensors and the manifest.
enum class CheckpointParts { all, model };

/// Reads the folder `checkpoint`. Throws std::runtime_error naming the file, what was found and what was expected: no
/// manifest or a damaged one, another format version, a missing or truncated file, a wrong checksum.
BOV_API CheckpointContents load_checkpoint(const std::filesystem::path& checkpoint,
                                           CheckpointParts parts = CheckpointParts::all);

/// A folder that is no intact checkpoint.
struct BOV_API SkippedCheckpoint {
  std::filesystem::path path;  ///< of the folder
  std::string reason;          ///< what is wrong with it
};

/// What latest_checkpoint() found.
struct BOV_API LatestCheckpoint {
  std::optional<std::filesystem::path>
      path;  ///< empty if the folder holds no intact checkpoint or does not exist
  std::vector<SkippedCheckpoint> skipped;  ///< damaged ones that are newer, and unfinished temporaries
};

/// The checkpoint of the highest step whose files all match their checksums (each candidate is read in full). Damage does
/// not throw, it is reported; throws std::filesystem::filesystem_error if the folder cannot be listed.
BOV_API LatestCheckpoint latest_checkpoint(const std::filesystem::path& checkpoints);

/// Removes every checkpoint older than the newest `keep` (at least 1) complete ones, and temporaries that nobody writes
/// any more: those of processes that do not run on this machine, and of this process, which therefore must not be
/// saving meanwhile. Returns what it removed. Damaged checkpoints do not count, and stay if they are newer. Throws
/// std::runtime_error if something cannot be removed.
BOV_API std::vector<std::filesystem::path> prune_checkpoints(const std::filesystem::path& checkpoints,
                                                             int64_t keep);

}  // namespace bov
