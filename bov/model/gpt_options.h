#pragma once

#include <torch/types.h>

#include <string>
#include <vector>

#include "bov/export.h"
#include "bov/value/value_spec.h"

namespace bov {

/// Shape, value spec and dtypes of a GPT: the published model's defaults at 12 layers. Plain data; GPT validates and
/// freezes a copy of it when it is built.
struct BOV_API GPTOptions {
  int64_t sequence_length = 2048;                  ///< T in training; also the left reach of an "L" window
  int64_t vocab_size = 32768;                      ///< |V|
  int64_t n_layer = 12;                            ///< L
  int64_t n_head = 6;                              ///< H
  int64_t n_kv_head = 6;                           ///< Hkv, a divisor of H
  int64_t n_embd = 768;                            ///< C; the head width D is n_embd / n_head
  std::string window_pattern = "SSSL";             ///< tiled over the layers; the last layer is always L
  double rotary_base = 100000.0;                   ///< angles are position·base^(-2j/D)
  double qk_scale = 1.2;                           ///< multiplies q and k after their norm
  double logit_softcap = 15.0;                     ///< logits = s·tanh(z/s); 0 turns it off
  bool smear = true;                               ///< mixes the previous token's embedding into each token's
  ValueSpec value;                                 ///< where values come from, and in which layers
  torch::Dtype parameter_dtype = torch::kFloat32;  ///< masters: matrices, head, coefficients
  torch::Dtype table_dtype = torch::kFloat32;      ///< token embedding and banks
  torch::Dtype compute_dtype = torch::kFloat32;    ///< activations
  torch::Device bank_device = torch::kCPU;         ///< of the banks when built; `meta`: they have no memory

  /// D
  int64_t head_dim() const { return n_embd / n_head; }
  /// Width inside the MLP, 4C.
  int64_t mlp_width() const { return 4 * n_embd; }

  /// Left reach in keys of each layer's window: query i sees keys [i - left, i]. "L" is sequence_length, "S" is
  /// ceil(ceil(T/4)/128)·128 (512 at T = 2048).
  std::vector<int64_t> window_left() const;

  /// Throws c10::Error naming the field, its value and what was expected: heads that do not divide the width, an odd
  /// head width, an unknown window letter, sizes below 1, an impossible value spec.
  void validate() const;
};

}  // namespace bov
