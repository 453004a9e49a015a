#pragma once

#include "csrc/export.h"
#include "csrc/token_index.h"

namespace bov::ops::reference {

/// token_index (csrc/token_index.h) as a composition of LibTorch operators. The oracle of the tests; the ids must lie
/// in [0, rows).
BOV_OPS_API TokenIndex token_index(const at::Tensor& ids, int64_t rows);

}  // namespace bov::ops::reference
