#pragma once

#include <memory>

#include "bov/decode/bank_store.h"
#include "bov/decode/decode_state.h"
#include "bov/model/gpt.h"
#include "csrc/bank_attention.h"

namespace bov {

/// Choices of decoding that the model does not make.
struct BOV_API DecoderOptions {
  LongWindow long_window = LongWindow::trained;                  ///< reach of "L" windows
  ops::BankAlgorithm algorithm = ops::BankAlgorithm::automatic;  ///< of layers that read a bank
};

/// A GPT that goes on from where it was: a pass over new tokens alone, with what it needs of earlier ones in a
/// DecodeState (arXiv 2606.02780, section 3: no V cache where values are a function of the token id). Its logits are
/// those of GPT::forward over the whole sequence. Any chunking of a sequence into passes gives the same.
///
/// The model's parameters must not change while a state is in use. No gradients.
class BOV_API Decoder {
 public:
  /// `banks` must hold the tables of every layer that needs token ids alone; by default they are the model's own. Throws
  /// c10::Error for an empty model.
  explicit Decoder(GPT model, DecoderOptions options = {}, std::shared_ptr<BankStore> banks = nullptr);

  /// `batch` empty sequences on the model's device. Throws c10::Error for a batch below 1.
  DecodeState start(int64_t batch = 1) const;

  /// The next T >= 1 tokens of every sequence, token_ids [B, T] int64, -> logits [B, T, V]; the state is T longer. A
  /// state of sequences of different lengths is fine. Throws c10::Error if ids and state do not fit each other or the
  /// model, or for an id out of range: the state is then as it was. After any other error it must be discarded.
  torch::Tensor forward(const torch::Tensor& token_ids, DecodeState& state);

  /// The same, logits of the last token alone: token_ids [B, T] -> [B, V]. What a prompt needs. Throws as forward().
  torch::Tensor next_logits(const torch::Tensor& token_ids, DecodeState& state);

  /// The model that was given.
  const GPT& model() const { return model_; }
  /// As given.
  const DecoderOptions& options() const { return options_; }
  /// Where the tables lie.
  const BankStore& banks() const { return *banks_; }
  /// What its states keep.
  const CacheLayout& layout() const { return layout_; }

 private:
  class Pass;
  void check(const torch::Tensor& token_ids, const DecodeState& state) const;
  torch::Tensor hidden_states(const torch::Tensor& token_ids, DecodeState& state);

  GPT model_;
  DecoderOptions options_;
  std::shared_ptr<BankStore> banks_;
  CacheLayout layout_;
  bool reads_shared_values_ =
      false;  // some layer that keeps its own values takes part of them from the shared bank
};

}  // namespace bov
