#pragma once

#include "bov/value/value_sources.h"

/// One function a built-in source; each lives in its own file and value_sources.cpp lists them.
namespace bov {

ValueSourceInfo stream_source();       ///< x_i·W_V: standard attention
ValueSourceInfo first_layer_source();  ///< V1: layer 0's values (ResFormer, SVFormer)
ValueSourceInfo embedding_source();    ///< x0·W_V: the layer's projection of the embedding
ValueSourceInfo bank_source();         ///< E_V[token id]: Bank of Values

}  // namespace bov
