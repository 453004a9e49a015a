#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bov/value/value_spec.h"

/// A value spec as the paper's tables write it.
namespace bov::experiments {

/// The values of a target layer: "V", "γ·V1", "0.5·V + 0.5·x0·W_V", "α·V + β·E_V[i]", "V + g·E_V[i]"; a shared table is
/// E[i]. A source that the paper does not know keeps its registered name.
std::string value_formula(const ValueSpec& spec);

/// "learned", "gated" or the number; "-" for standard attention.
std::string coefficient_text(const ValueSpec& spec);

/// Ascending layer indices with runs joined: "1,3,8-11".
std::string layer_list_text(const std::vector<int64_t>& layers);

/// The target layers as layer_list_text; "-" for standard attention, which changes none.
std::string target_layers_text(const ValueSpec& spec, int64_t n_layer);

}  // namespace bov::experiments
