#pragma once

#include <string>
#include <vector>

#include "bov/io/safetensors.h"
#include "bov/model/gpt_options.h"

/// Names of the published code's state dict (github.com/RiddleHe/nanochat, the code of arXiv 2606.02780) for bov's
/// parameters, and maps of whole state dicts both ways. Shapes are equal on both sides. A shared table is
/// `shared_bank.table` here and stands under the first target layer there. Coefficients of each head have no known name
/// there: every function throws c10::Error for options with `coefficient: learned_per_head`.
namespace bov {

/// One parameter under both names.
struct BOV_API NanochatName {
  std::string bov;        ///< as `blocks.4.attention.query`
  std::string published;  ///< as `transformer.h.4.attn.c_q.weight`
};

/// Every parameter of a GPT with `options`. Throws c10::Error as target_layers().
BOV_API std::vector<NanochatName> nanochat_names(const GPTOptions& options);

/// Published value matrices that no forward pass reads, because the layer's values never come from them. The published
/// code keeps them at their initial values; bov does not have them. Throws as nanochat_names().
BOV_API std::vector<std::string> dead_nanochat_names(const GPTOptions& options);

/// The published name of bov's parameter `name`. Throws c10::Error naming it and the nearest known name.
BOV_API std::string to_nanochat(const std::string& name, const GPTOptions& options);

/// bov's name of the published `name`. Throws c10::Error naming it and the nearest known name; a dead matrix has none.
BOV_API std::string from_nanochat(const std::string& name, const GPTOptions& options);

/// What import_nanochat() gives.
struct BOV_API NanochatImport {
  TensorMap parameters;  ///< under bov's names
  std::vector<std::string>
      dropped;  ///< published names without a parameter here: dead matrices, an idle smear gate
};

/// A published state dict under bov's names. Throws c10::Error if a name is unknown or missing, or if `options` has no
/// smear gate and the published one is not idle (λ ≠ 0).
BOV_API NanochatImport import_nanochat(const TensorMap& published, const GPTOptions& options);

/// bov's parameters as a complete state dict of the published code: what it has in addition (dead matrices, the smear
/// gate of a model without one) is filled with zeros, which leaves the function as it is. Throws c10::Error if a name
/// is unknown or missing.
BOV_API TensorMap export_nanochat(const TensorMap& parameters, const GPTOptions& options);

}  // namespace bov
