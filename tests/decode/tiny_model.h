#pragma once

#include "bov/model/gpt.h"

namespace bov::testing {

/// Six layers with short windows of reach 128 and long ones of 130, grouped heads, 50 tokens.
inline GPTOptions tiny_options(torch::Dtype dtype) {
  GPTOptions options;
  options.sequence_length = 130;
  options.vocab_size = 50;
  options.n_layer = 6;
  options.n_head = 4;
  options.n_kv_head = 2;
  options.n_embd = 32;
  options.parameter_dtype = options.table_dtype = options.compute_dtype = dtype;
  return options;
}

/// Every parameter, those that start at zero too, drawn from N(0, 0.2²); equal options give equal parameters.
inline GPT random_model(const GPTOptions& options) {
  torch::manual_seed(17);
  GPT model(options);
  torch::NoGradGuard no_grad;
  for (auto& parameter : model->parameters()) parameter.normal_(0, 0.2);
  return model;
}

inline torch::Tensor random_ids(int64_t batch, int64_t length) {
  return torch::randint(0, 50, {batch, length}, torch::kInt64);
}

}  // namespace bov::testing
