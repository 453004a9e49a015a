#pragma once

#include <string>
#include <vector>

#include "bov/value/value_spec.h"

namespace bov {

/// A named point on the four axes.
struct BOV_API ValuePreset {
  std::string name;     ///< spelling in YAML and on the command line
  std::string summary;  ///< the formula and where it was published
  ValueSpec spec;       ///< the point
};

/// Every preset: standard, value_residual, svformer, add_first_layer, add_embedding, replace_first_layer,
/// replace_embedding, bov, bov_add, value_embedding_gated.
BOV_API const std::vector<ValuePreset>& value_presets();

/// The spec of preset `name`. Throws c10::Error naming `name` and every known preset.
BOV_API ValueSpec value_preset(const std::string& name);

}  // namespace bov
