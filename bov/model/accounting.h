#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bov/model/gpt_options.h"

/// Sizes and costs of a GPT from its options alone, no tensor is made. Formulas: the published code's accounting.
namespace bov {

/// Parameter counts by group.
struct BOV_API ParameterCounts {
  int64_t embedding = 0;     ///< token embedding
  int64_t head = 0;          ///< unembedding
  int64_t matrices = 0;      ///< attention and MLP matrices, gates included
  int64_t banks = 0;         ///< E_V tables
  int64_t coefficients = 0;  ///< γ, α, β
  int64_t smear = 0;         ///< smear gate and λ
  int64_t dead = 0;  ///< value projections that the published code keeps but never uses; not allocated here

  /// Parameters that this implementation has.
  int64_t total() const { return embedding + head + matrices + banks + coefficients + smear; }
  /// As the published code counts: with the dead projections and always 25 smear parameters.
  int64_t total_as_published() const {
    return embedding + head + matrices + banks + coefficients + 25 + dead;
  }
  /// Published "scaling parameters": blocks (dead ones included) and head.
  int64_t scaling_as_published() const { return head + matrices + coefficients + dead; }
};
/// The counts of a GPT with `options`. Throws c10::Error as GPTOptions::validate().
BOV_API ParameterCounts count_parameters(const GPTOptions& options);

/// Training FLOPs per token, forward and backward, as the published code counts: 6·(matrices + head), the value
/// projection counted twice where `embedding` is added, plus 12·H·D·window per layer; tables and coefficients free. Throws
/// c10::Error as GPTOptions::validate().
BOV_API int64_t flops_per_token(const GPTOptions& options);

/// Same count for what this implementation executes: the additive `embedding` form is one matmul. Throws the same.
BOV_API int64_t executed_flops_per_token(const GPTOptions& options);

/// Steps that spend `flops` at `tokens_per_step`, rounded half to even as Python does. At least 1. Throws
/// c10::Error, naming the argument, unless all are positive and the result can be counted.
BOV_API int64_t steps_for_flops(double flops, int64_t flops_per_token, int64_t tokens_per_step);

/// Batch and decay scaling of the published script: reference 12 layers, 2^19 tokens.
struct BOV_API BatchScaling {
  int64_t tokens_per_step;  ///< power of two predicted for this size
  double learning_rate;     ///< factor on every batch-scaled rate: sqrt(B/2^19)
  double weight_decay;      ///< Muon weight decay: 0.28·sqrt(B/2^19)/ratio
};
/// The scaling for a GPT with `options`. Throws c10::Error as GPTOptions::validate().
BOV_API BatchScaling published_batch_scaling(const GPTOptions& options);

/// Bytes by part for training and decoding.
struct BOV_API MemoryEstimate {
  int64_t weights = 0;            ///< parameters in their dtypes
  int64_t gradients = 0;          ///< of all parameters
  int64_t optimizer = 0;          ///< state of AdamW and Muon
  int64_t activations = 0;        ///< estimate for one micro-batch
  int64_t key_cache = 0;          ///< one sequence of sequence_length positions, windows respected
  int64_t value_cache = 0;        ///< layers that cache values
  int64_t value_cache_saved = 0;  ///< value cache of the layers that need token ids alone
};
/// The estimate for a GPT with `options` and `micro_batch` sequences a pass. Throws c10::Error for a micro_batch below
/// 1, and as GPTOptions::validate().
BOV_API MemoryEstimate estimate_memory(const GPTOptions& options, int64_t micro_batch);

}  // namespace bov
