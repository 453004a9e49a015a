#include "bov/value/sources/builtin_sources.h"

namespace bov {
namespace {

class FirstLayerSource : public ValueSource {
 public:
  torch::Tensor values(const ValueInputs& inputs) const override {
    TORCH_CHECK(
        inputs.first_layer_values.defined(),
        "value source 'first_layer': ValueInputs.first_layer_values is undefined; pass layer 0's values");
    return inputs.first_layer_values;
  }
};

}  // namespace

ValueSourceInfo first_layer_source() {
  return {.name = "first_layer",
          .formula = "V_1",
          .lowest_target = 1,
          .cache_need = ValueCacheNeed::first_layer_values,
          .make = [](const ValueSpec&, const ValueShape&) { return std::make_shared<FirstLayerSource>(); }};
}

}  // namespace bov
