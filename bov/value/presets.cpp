#include "bov/value/presets.h"

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

namespace bov {

const std::vector<ValuePreset>& value_presets() {
  using enum ValueCombine;
  static const auto learned = ValueCoefficient::learned();
  static const std::vector<ValuePreset> presets{
      {"standard", "V = x_i·W_V", {}},
      {"value_residual",
       "0.5·V + 0.5·V_1 in every layer after the first (ResFormer, arXiv 2410.17897)",
       {.combine = add,
        .coefficient = ValueCoefficient::fixed(0.5),
        .source = "first_layer",
        .layers = TargetRule::every}},
      {"svformer",
       "V_1 in every layer (SVFormer, arXiv 2410.17897)",
       {.source = "first_layer", .layers = TargetRule::every}},
      {"add_first_layer",
       "α·V + β·V_1 in the last third (arXiv 2606.02780, Table 1 row 11)",
       {.combine = add, .coefficient = learned, .source = "first_layer", .layers = TargetRule::last_third}},
      {"add_embedding",
       "α·V + β·x_0·W_V in the last third (Table 1 row 13)",
       {.combine = add, .coefficient = learned, .source = "embedding", .layers = TargetRule::last_third}},
      {"replace_first_layer",
       "γ·V_1 in the last third (Table 1 row 6)",
       {.coefficient = learned, .source = "first_layer", .layers = TargetRule::last_third}},
      {"replace_embedding",
       "γ·x_0·W_V in the last third (Table 1 row 9)",
       {.coefficient = learned, .source = "embedding", .layers = TargetRule::last_third}},
      {"bov",
       "γ·E_V[i] in the last third: Bank of Values (Eq. 5)",
       {.coefficient = learned, .source = "bank", .layers = TargetRule::last_third}},
      {"bov_add",
       "α·V + β·E_V[i] in the last third (Figure 5b, add V)",
       {.combine = add, .coefficient = learned, .source = "bank", .layers = TargetRule::last_third}},
      {"value_embedding_gated",
       "V + 3·sigmoid(W_g·h[:12])·E[i] in every other layer (Table 3)",
       {.combine = add,
        .coefficient = ValueCoefficient::gated(),
        .source = "bank",
        .layers = TargetRule::every_other,
        .init = BankInit::uniform}},
  };
  return presets;
}

ValueSpec value_preset(const std::string& name) {
  std::vector<std::string> names;
  for (const auto& preset : value_presets()) {
    if (preset.name == name) return preset.spec;
    names.push_back(preset.name);
  }
  TORCH_CHECK(false, "preset '", name, "' is unknown; expected one of ", c10::Join(", ", names));
}

}  // namespace bov
