#pragma once

#include <ATen/core/Tensor.h>
#include <torch/ordered_dict.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "bov/export.h"
#include "bov/optim/adamw.h"
#include "bov/optim/muon.h"

namespace bov {

/// What a parameter of bov::GPT is to the optimizer.
enum class ParameterRole {
  kHead,         ///< unembedding
  kEmbedding,    ///< token embedding
  kSmear,        ///< smear gate and λ
  kAlpha,        ///< α, coefficient of V in `combine: add`
  kCoefficient,  ///< β and γ, coefficients of the replacing or added values
  kBank,         ///< value tables E_V
  kMatrix,       ///< attention, MLP and gate matrices: Muon; every other role is AdamW
};

/// "head", "embedding", "smear", "alpha", "coefficient", "bank", "matrix".
BOV_API std::string to_string(ParameterRole role);

/// Role of a GPT parameter by its name (bov/model/gpt.h lists the names). Throws c10::Error naming a
/// parameter that has none.
BOV_API ParameterRole parameter_role(std::string_view name);

/// Base rates; the defaults are the published 12-layer values.
struct BOV_API OptimizerRates {
  double unembedding = 0.008;        ///< head
  double embedding = 0.3;            ///< banks learn at half of it
  double matrix = 0.02;              ///< Muon's
  double scalar = 0.5;               ///< β and γ
  double scalar_beta1 = 0.96;        ///< β1 of β and γ
  double alpha_ratio = 0.01;         ///< α's rate as a part of `scalar`
  double alpha_beta1 = 0.8;          ///< β1 of α
  double alpha_weight_decay = 0.05;  ///< of α
  double smear = 0.2;                ///< smear gate and λ
  double weight_decay = 0.28;        ///< Muon's at the first step, batch and size factors already in it
  double batch_scale = 1.0;          ///< factor sqrt(batch tokens / 2^19) on every rate but smear's
};

/// Parameters of one role with their options; the learning rate in the options is the rate at multiplier 1.
struct BOV_API ParameterGroup {
  ParameterRole role;                               ///< of all of them
  std::vector<std::string> names;                   ///< as in named_parameters()
  std::vector<at::Tensor> parameters;               ///< in the order of names
  std::variant<AdamWOptions, MuonOptions> options;  ///< says which optimizer
};

/// Groups of the published optimizer in its order (head, embedding, smear, α, β and γ, banks, matrices),
/// empty ones left out; within a group the order of `named_parameters`. With w = sqrt(768/n_embd) and s =
/// batch_scale:
///
/// | role        | learning rate         | betas              | weight decay                     |
/// |-------------|-----------------------|--------------------|----------------------------------|
/// | head        | unembedding·s·w       | 0.8, 0.96          | 0.01                             |
/// | embedding   | embedding·s·w         | 0.8, 0.995         | 0.001                            |
/// | smear       | smear                 | 0.8, 0.95          | 0                                |
/// | alpha       | alpha_ratio·scalar·s  | alpha_beta1, 0.95  | alpha_weight_decay               |
/// | coefficient | scalar·s              | scalar_beta1, 0.95 | 0                                |
/// | bank        | 0.5·embedding·s·w     | 0.8, 0.995         | 0.01                             |
/// | matrix      | matrix·s              | β2 = 0.9           | weight_decay (cautious, Muon)    |
///
/// AdamW's eps is 1e-10. Source: arXiv 2606.02780, table 6 and its published code. Throws c10::Error naming a
/// parameter without a role, or if n_embd < 1.
BOV_API std::vector<ParameterGroup> published_parameter_groups(
    const torch::OrderedDict<std::string, at::Tensor>& named_parameters,
    int64_t n_embd,
    const OptimizerRates& rates);

}  // namespace bov
