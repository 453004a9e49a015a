#include "bov/value/sources/builtin_sources.h"

namespace bov {
namespace {

class EmbeddingSource : public ValueSource {
 public:
  torch::Tensor projection_input(const ValueInputs& inputs) const override {
    TORCH_CHECK(inputs.x0.defined(),
                "value source 'embedding': ValueInputs.x0 is undefined; pass RMSNorm of the embedding");
    return inputs.x0;
  }
};

}  // namespace

ValueSourceInfo embedding_source() {
  // With smear on, x0 holds the previous token too, so the values are no function of one token id and are cached.
  return {.name = "embedding",
          .formula = "x_0·W_V",
          .projects = true,
          .cache_need = ValueCacheNeed::own_values,
          .make = [](const ValueSpec&, const ValueShape&) { return std::make_shared<EmbeddingSource>(); }};
}

}  // namespace bov
