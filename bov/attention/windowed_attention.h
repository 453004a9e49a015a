#pragma once

#include <torch/types.h>

#include "bov/export.h"

namespace bov {

/// Causal softmax attention in which query i sees keys [i - left, i]; scale 1/sqrt(D).
///
/// q [B, T, H, D], k and v [B, T, Hkv, D], H a multiple of Hkv -> [B, T, H, D]. Work and memory grow with T·left, not
/// T²: blocks of queries meet only the slice of keys that they see. Throws c10::Error on other shapes or left < 0.
BOV_API torch::Tensor windowed_attention(const torch::Tensor& q,
                                         const torch::Tensor& k,
                                         const torch::Tensor& v,
                                         int64_t left);

/// The same function as one masked softmax over all T² pairs: the oracle of the tests.
BOV_API torch::Tensor reference_windowed_attention(const torch::Tensor& q,
                                                   const torch::Tensor& k,
                                                   const torch::Tensor& v,
                                                   int64_t left);

}  // namespace bov
