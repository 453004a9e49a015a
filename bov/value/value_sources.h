#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bov/export.h"
#include "bov/value/value_spec.h"
#include "csrc/token_index.h"

/// The third axis: what a value source is, and the registry of all of them.
namespace bov {

/// What a layer's values may be computed from. A tensor that no source of the model reads may stay undefined.
struct BOV_API ValueInputs {
  torch::Tensor hidden;              ///< [B, T, C] RMSNorm of the residual stream at this layer
  torch::Tensor x0;                  ///< [B, T, C] RMSNorm of the residual stream before the first layer
  torch::Tensor first_layer_values;  ///< [B, T, Hkv, D] V1: layer 0's own values; undefined in layer 0
  torch::Tensor token_ids;           ///< [B, T] int64
  torch::Tensor shared_values;       ///< [B, T, Hkv, D] rows of the table that all layers share
  /// Of token_ids and the vocabulary, where gradients of tables are wanted: banks then sort nothing of their own.
  std::optional<ops::TokenIndex> token_index;
};

/// What decoding must keep to have a layer's values of past tokens again.
enum class ValueCacheNeed { own_values, first_layer_values, token_ids };

/// Sizes that a source may need to build its parameters.
struct BOV_API ValueShape {
  int64_t n_embd = 0;                          ///< C
  int64_t n_kv_head = 0;                       ///< Hkv
  int64_t head_dim = 0;                        ///< D
  int64_t vocab_size = 0;                      ///< rows of a table
  torch::Dtype table_dtype = torch::kFloat32;  ///< of a table
  torch::Device table_device = torch::kCPU;    ///< of a table when built

  /// Hkv·D, of a token's values.
  int64_t width() const { return n_kv_head * head_dim; }
};

/// One source of value vectors. It either names an input that the layer's own W_V projects, or gives values ready made;
/// a subclass overrides exactly one of the two.
class BOV_API ValueSource {
 public:
  virtual ~ValueSource() = default;
  /// The tensor [B, T, C] to project by W_V. Undefined (the default) if the values come ready made. Throws c10::Error if an
  /// input that it needs is undefined, as values() does.
  virtual torch::Tensor projection_input(const ValueInputs& inputs) const;
  /// Values [B, T, Hkv, D] in the dtype of inputs.hidden. Called only if projection_input is not overridden. Throws
  /// c10::Error if an input that it needs is undefined or holds a token id out of range.
  virtual torch::Tensor values(const ValueInputs& inputs) const;
  /// Module with the source's parameters, registered by the layer under module_name(); null if it has none.
  virtual std::shared_ptr<torch::nn::Module> module() const { return nullptr; }
  /// Name of module() in the layer; a checkpoint's parameters carry it.
  virtual std::string module_name() const { return "source"; }
};

/// What is known of a source without building it. Costs count value projections (W_V matmuls) a target layer.
struct BOV_API ValueSourceInfo {
  std::string name;           ///< spelling in YAML
  std::string formula;        ///< Ṽ in the paper's symbols
  bool projects = false;      ///< Ṽ is W_V applied to projection_input
  bool has_table = false;     ///< owns one row a token id (`shared`, `init` apply)
  int64_t lowest_target = 0;  ///< first layer that may use it
  ValueCacheNeed cache_need = ValueCacheNeed::own_values;  ///< when it replaces V with a scalar coefficient
  std::function<std::shared_ptr<ValueSource>(const ValueSpec&, const ValueShape&)> make;  ///< builds it
};

/// The source called `name`. Throws c10::Error naming it and every known name.
BOV_API const ValueSourceInfo& value_source_info(const std::string& name);

/// What decoding must keep for a target layer of `spec`. A gate or a sum with V makes the values a function of the
/// context, so they are kept themselves. Throws as value_source_info().
BOV_API ValueCacheNeed value_cache_need(const ValueSpec& spec);

/// Names of all sources in registration order.
BOV_API std::vector<std::string> value_source_names();

/// Adds a source, so that specs may name it. Throws c10::Error if the name is taken. Not thread-safe: call it at start-up.
BOV_API void register_value_source(ValueSourceInfo info);

}  // namespace bov
