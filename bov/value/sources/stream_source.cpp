#include "bov/value/sources/builtin_sources.h"

namespace bov {
namespace {

class StreamSource : public ValueSource {
 public:
  torch::Tensor projection_input(const ValueInputs& inputs) const override { return inputs.hidden; }
};

}  // namespace

ValueSourceInfo stream_source() {
  return {.name = "stream",
          .formula = "V = x_i·W_V",
          .projects = true,
          .cache_need = ValueCacheNeed::own_values,
          .make = [](const ValueSpec&, const ValueShape&) { return std::make_shared<StreamSource>(); }};
}

}  // namespace bov
