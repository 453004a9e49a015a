#pragma once

#include <torch/nn/cloneable.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/pimpl.h>

#include <functional>
#include <vector>

#include "bov/attention/rotary.h"
#include "bov/model/block.h"
#include "bov/model/gpt_options.h"
#include "bov/model/smear.h"
#include "bov/value/bank_of_values.h"

namespace bov {

/// The published GPT (reference forward pass: docs/architecture.md) with any value spec.
///
/// Parameter names: `embedding`, `head`, `smear.gate`, `smear.lambda`, `shared_bank.table`, and per block i
/// `blocks.i.attention.{query,key,output}`, `blocks.i.attention.value.{projection,gamma,alpha,beta,gate}`,
/// `blocks.i.attention.value.bank.table`, `blocks.i.mlp.{up,down}`.
class BOV_API GPTImpl : public torch::nn::Cloneable<GPTImpl> {
 public:
  /// Throws c10::Error as GPTOptions::validate().
  explicit GPTImpl(GPTOptions options);
  /// Makes the parameters and draws them.
  void reset() override;

  /// Draws every parameter anew from the default generator, in an order that does not depend on the value spec: two
  /// variants seeded alike start with equal shared parameters.
  void reset_parameters();

  /// token_ids [B, T] int64, each in [0, V) -> logits [B, T, V], softcapped, float32 (float64 if the model computes in
  /// float64). Throws c10::Error for ids of another rank or dtype, and on the CPU naming an id out of range; on CUDA that
  /// is a device assertion of LibTorch.
  torch::Tensor forward(const torch::Tensor& token_ids);

  /// Final normalised residual stream [B, T, C] of token_ids [B, T] in compute dtype, before the head. Throws as forward().
  torch::Tensor hidden_states(const torch::Tensor& token_ids);

  /// Mean cross-entropy in nats of targets [B, T] int64, those of -1 left out: a scalar to call backward() on. Equals
  /// the cross-entropy of forward(token_ids) without ever holding all logits. Throws as forward(), and c10::Error for
  /// targets of another shape or dtype, if all are -1, and on the CPU for one outside the vocabulary.
  torch::Tensor loss(const torch::Tensor& token_ids, const torch::Tensor& targets);

  /// The same for each target, for evaluation: token_ids and targets [B, T] -> [B, T], 0 where the target is -1. Not
  /// differentiable. Throws as loss(), but all targets may be -1.
  torch::Tensor token_losses(const torch::Tensor& token_ids, const torch::Tensor& targets);

  /// How a layer attends: its output [B, T, C] given its inputs, in which layer 0 also sets first_layer_values.
  using LayerAttention =
      std::function<torch::Tensor(int64_t layer, CausalSelfAttentionImpl& attention, ValueInputs& inputs)>;

  /// The parts of forward(), for passes that differ in where attention finds keys and values of earlier tokens.
  /// n = RMSNorm of the embeddings of token_ids [B, T], [B, T, C] in compute dtype, before smear. Throws as forward().
  torch::Tensor embed(const torch::Tensor& token_ids);
  /// All blocks and the last norm: residual stream x [B, T, C] in compute dtype -> [B, T, C]. Of `inputs`, x0 and hidden
  /// are set here. Throws c10::Error for x of another width, and what `attend` throws.
  torch::Tensor run_blocks(torch::Tensor x, ValueInputs inputs, const LayerAttention& attend);
  /// hidden [.., C] of any floating dtype, to which the head is cast -> logits [.., V], softcapped, float32 at least.
  /// Throws c10::Error for another width.
  torch::Tensor logits(const torch::Tensor& hidden);

  /// As given.
  const GPTOptions& options() const { return options_; }
  /// Ascending indices of the layers that options().value changes.
  const std::vector<int64_t>& target_layers() const { return target_layers_; }

  torch::Tensor embedding;                ///< [V, C] table dtype
  torch::Tensor head;                     ///< [V, C]
  Smear smear{nullptr};                   ///< empty if options().smear is off
  BankOfValues shared_bank{nullptr};      ///< empty unless options().value.shared
  torch::nn::ModuleList blocks{nullptr};  ///< a Block a layer

 private:
  GPTOptions options_;
  std::vector<int64_t> target_layers_;
};
TORCH_MODULE(GPT);

}  // namespace bov
