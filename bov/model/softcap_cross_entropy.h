#pragma once

#include <torch/types.h>

#include "bov/export.h"

namespace bov {

/// scores [..] -> cap·tanh(scores/cap) [..], in float32 (float64 for float64 scores); cap 0 leaves them as they are. Never
/// throws.
BOV_API torch::Tensor softcap(const torch::Tensor& scores, double cap);

/// Cross-entropy in nats of softcap(hidden·headᵀ, cap) against targets, without ever holding all logits.
///
/// hidden [N, C] (compute dtype), head [V, C], targets [N] int64 in [0, V), or -1 for a position that does not count ->
/// [N] float32 (or float64), 0 where the target is -1. Not differentiable: for evaluation. Throws c10::Error for other
/// shapes, for targets that are not int64, and on the CPU naming a target that is neither -1 nor in [0, V).
BOV_API torch::Tensor softcap_cross_entropy(const torch::Tensor& hidden,
                                            const torch::Tensor& head,
                                            const torch::Tensor& targets,
                                            double cap);

/// Mean of softcap_cross_entropy over the targets that count, for the same hidden [N, C], head [V, C] and targets [N]: a
/// scalar, differentiable in hidden and head. The gradients are made in the forward pass, chunk by chunk while the logits
/// are in cache, so that one chunk is all the memory it takes.
/// Throws as softcap_cross_entropy, and c10::Error if every target is -1.
BOV_API torch::Tensor mean_softcap_cross_entropy(const torch::Tensor& hidden,
                                                 const torch::Tensor& head,
                                                 const torch::Tensor& targets,
                                                 double cap);

}  // namespace bov
