#pragma once

#include <filesystem>
#include <string>

#include "bov/io/nanochat_names.h"
#include "experiments/train/run_model.h"

/// Models in safetensors files under the names of the published code (bov/io/nanochat_names.h).
namespace bov::experiments {

/// The parameters in `file` whose published names follow `prefix`, under bov's names and in the dtypes of `options`.
/// Tensors without the prefix are not looked at. Throws std::runtime_error naming the file, the tensor, what was found and
/// what was expected: an unknown or missing name, another shape, a dtype that would be rounded, a number that is not
/// finite.
NanochatImport read_published(const std::filesystem::path& file,
                              const std::string& prefix,
                              const GPTOptions& options);

/// Writes the model of a checkpoint as a complete state dict of the published code, each tensor in the dtype that it has
/// in the checkpoint, and returns how many. Throws std::runtime_error naming the checkpoint if its tables are quantized,
/// and if it lacks a tensor of the config's model or has another one or another shape.
size_t write_published(const RunCheckpoint& run, const std::filesystem::path& file);

}  // namespace bov::experiments
