#pragma once

#include <cstdint>
#include <vector>

#include "bov/io/tensor_rows.h"
#include "bov/model/gpt.h"

/// Models with other value sources turned into models whose target layers read tables (source: bank): exactly, where the
/// values are a function of the token id (fold_into_banks), or as the mean over a text (ValueMeans).
namespace bov {

/// A model with tables, ready to be written (CheckpointContents::model and model_rows, or save_safetensors). Made from a
/// model that it keeps alive and shares memory with.
struct BOV_API BankModel {
  GPTOptions options;    ///< of the GPT that has these parameters
  TensorMap parameters;  ///< all but the tables
  TensorRowsMap tables;  ///< [|V|, Hkv·D] in table dtype, computed when they are written
};

/// The bank model that computes what `model` computes, equal to rounding, where its values are a function of the token id:
/// without smear, x_0 is RMSNorm(RMSNorm(embedding[t])) of a position's token t. Source embedding: row t of each target
/// layer's table is x_0·W_V of that layer, in compute dtype. Source first_layer: row t of one shared table is layer 0's
/// x_0·W_V. Every combine and coefficient is kept with its parameters; layers that project nothing any more lose W_V.
/// Works on the device of `model`.
///
/// Throws c10::Error naming the reason where this is not exact: another source; smear, which makes x_0 a function of the
/// previous token too; table_dtype narrower than compute_dtype, which would round the tables.
BOV_API BankModel fold_into_banks(GPT model);

/// Mean value vector of each token id at target layers of a standard model, over the text that it is shown: tables with
/// which training can go on from a pretrained model (γ = 1). All layers are measured in the same pass, each in the model
/// as it was.
///
///     bov::ValueMeans means(model, bov::TargetRule::last_third);
///     while (next_batch()) means.add(token_ids);  // [B, T]
///     bov::save_safetensors(path, means.bank_model().parameters, {}, means.bank_model().tables);
class BOV_API ValueMeans {
 public:
  /// Throws c10::Error unless every layer of `model` has standard values (source: stream, coefficient 1), and as
  /// target_layers().
  ValueMeans(GPT model, const TargetLayers& layers);

  /// Takes in the values of the positions of token_ids [B, T] int64 that are true in `counted` [B, T] bool, or of all
  /// of them without it; each row begins a context of its own. Throws as GPT::forward(), and c10::Error for a `counted`
  /// of another shape or dtype.
  void add(const torch::Tensor& token_ids, const torch::Tensor& counted = {});

  int64_t tokens() const;     ///< positions taken in
  int64_t rows_seen() const;  ///< token ids that were among them
  /// The target layers, ascending.
  const std::vector<int64_t>& layers() const { return layers_; }

  /// The model with γ·E_V[i] at the target layers. Rows of ids that were never seen are the layer's mean over all
  /// positions, the constant nearest to its values in the mean square. Throws c10::Error if nothing was added. Its tables
  /// change with later calls of add().
  BankModel bank_model() const;

 private:
  GPT model_;
  GPTOptions options_;                ///< of the bank model
  std::vector<int64_t> layers_;       ///< ascending
  torch::Tensor counts_;              ///< [|V|] int64
  std::vector<torch::Tensor> means_;  ///< [|V|, Hkv·D] for each layer, float32 or (computing in it) float64
};

}  // namespace bov
