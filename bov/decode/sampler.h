#pragma once

#include <ATen/core/Generator.h>
#include <torch/types.h>

#include <cstdint>

#include "bov/export.h"

namespace bov {

/// How the next token is chosen. The cuts apply in the order top_k, top_p.
struct BOV_API SamplingOptions {
  double temperature = 1.0;  ///< divides the logits; 0: the likeliest token, always
  int64_t top_k = 0;         ///< only the k likeliest tokens; 0: all
  double top_p = 1.0;        ///< only the likeliest tokens that together reach this probability, at least one

  /// Throws c10::Error naming the field, its value and what was expected.
  void validate() const;
};

/// Draws the tokens of one sequence: equal seeds and logits give equal tokens.
class BOV_API Sampler {
 public:
  /// Throws c10::Error for options out of range.
  Sampler(SamplingOptions options, uint64_t seed);

  /// Logits [V] of any floating dtype and device -> token id. A token of logit -infinity is never drawn. Throws c10::Error
  /// if a logit is NaN or +infinity, or if all are -infinity.
  int64_t next(const torch::Tensor& logits);

 private:
  SamplingOptions options_;
  at::Generator generator_;
};

}  // namespace bov
