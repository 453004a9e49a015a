#include <torch/library.h>

#include "csrc/token_index_contract.h"

namespace bov::ops {
namespace {

TokenIndexTensors token_index_meta(const at::Tensor& ids, c10::SymInt rows) {
  check_token_index(ids, rows);
  return empty_token_index(ids, rows);
}

}  // namespace

TORCH_LIBRARY_IMPL(bov, Meta, m) {
  m.impl("token_index", token_index_meta);
}

}  // namespace bov::ops
