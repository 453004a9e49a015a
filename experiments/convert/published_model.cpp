#include "experiments/convert/published_model.h"

#include <stdexcept>

#include "bov/io/checkpoint.h"
#include "bov/io/module_state.h"
#include "experiments/config/run_options.h"
#include "experiments/convert/tensor_checks.h"
#include "experiments/naming_path.h"

namespace bov::experiments {
namespace {

[[noreturn]] void fail(const std::filesystem::path& file, const std::string& problem) {
  throw std::runtime_error(file.string() + ": " + problem);
}

/// Parameters of a GPT as shapes and dtypes; its tables have no memory.
TensorMap expected_parameters(GPTOptions options) {
  options.bank_device = torch::kMeta;
  return module_state(*GPT(options));
}

/// `found` in the dtype of `expected`.
torch::Tensor fitted(const std::filesystem::path& file,
                     const std::string& name,
                     const torch::Tensor& found,
                     const torch::Tensor& expected) {
  check_shape(file, name, found, expected.sizes());
  const auto dtype = expected.scalar_type();
  // float8 promotes to nothing.
  const bool promotes = found.is_floating_point() && !c10::isFloat8Type(found.scalar_type());
  if (!promotes || c10::promoteTypes(found.scalar_type(), dtype) != dtype) {
    fail(file, c10::str("tensor '", name, "' is ", found.scalar_type(), "; the config stores it in ", dtype,
                        ", which cannot hold every such number"));
  }
  check_finite(file, name, found);
  return found.to(dtype);
}

}  // namespace

NanochatImport read_published(const std::filesystem::path& file,
                              const std::string& prefix,
                              const GPTOptions& options) {
  const SafetensorsReader reader(file);
  TensorMap published;
  for (const auto& [name, info] : reader.tensors()) {
    if (name.starts_with(prefix)) published[name.substr(prefix.size())] = reader.tensor(name);
  }
  if (published.empty()) fail(file, "holds no tensor whose name begins with '" + prefix + "'");
  NanochatImport model = naming_path(file, [&] { return import_nanochat(published, options); });
  const TensorMap expected = expected_parameters(options);
  for (auto& [name, tensor] : model.parameters) {
    tensor = fitted(file, prefix + to_nanochat(name, options), tensor, expected.at(name));
  }
  return model;
}

size_t write_published(const RunCheckpoint& run, const std::filesystem::path& file) {
  const auto contents = load_checkpoint(run.checkpoint, CheckpointParts::model);
  for (const auto& [name, tensor] : contents.model) {
    if (name.ends_with(".row_scale")) {
      fail(run.checkpoint,
           "its tables are quantized, for which the published code has no names; export the "
           "run that it was made from");
    }
  }
  const GPTOptions options = to_gpt_options(run.config, torch::kCPU);
  const TensorMap published =
      naming_path(run.checkpoint, [&] { return export_nanochat(contents.model, options); });
  const TensorMap expected = expected_parameters(options);
  for (const auto& [name, tensor] : contents.model) {
    check_shape(run.checkpoint, name, tensor, expected.at(name).sizes());
  }
  save_safetensors(file, published, {{"format", "pt"}});
  return published.size();
}

}  // namespace bov::experiments
