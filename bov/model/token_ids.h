#pragma once

#include <torch/types.h>

namespace bov {

/// Throws c10::Error naming `what` and an id outside [0, vocab_size), or token_ids that are not int64 [B, T].
/// Ids on a GPU are not looked at, because that would wait for it.
void check_token_ids(const char* what, const torch::Tensor& token_ids, int64_t vocab_size);

}  // namespace bov
