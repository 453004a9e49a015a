#include "bov/value/value_sources.h"

#include "bov/value/sources/builtin_sources.h"

namespace bov {
namespace {

std::vector<ValueSourceInfo>& registry() {
  static std::vector<ValueSourceInfo> sources{stream_source(), first_layer_source(), embedding_source(),
                                              bank_source()};
  return sources;
}

}  // namespace

torch::Tensor ValueSource::projection_input(const ValueInputs&) const {
  return {};
}

torch::Tensor ValueSource::values(const ValueInputs&) const {
  TORCH_CHECK(false, "a value source must override projection_input or values");
}

const ValueSourceInfo& value_source_info(const std::string& name) {
  for (const auto& info : registry()) {
    if (info.name == name) return info;
  }
  TORCH_CHECK(false, "value source '", name, "' is unknown; expected one of ",
              c10::Join(", ", value_source_names()));
}

ValueCacheNeed value_cache_need(const ValueSpec& spec) {
  const bool by_context =
      spec.combine == ValueCombine::add || spec.coefficient.kind == ValueCoefficient::Kind::gated;
  return by_context ? ValueCacheNeed::own_values : value_source_info(spec.source).cache_need;
}

std::vector<std::string> value_source_names() {
  std::vector<std::string> names;
  for (const auto& info : registry()) names.push_back(info.name);
  return names;
}

void register_value_source(ValueSourceInfo info) {
  for (const auto& known : registry()) {
    TORCH_CHECK(known.name != info.name, "value source '", info.name, "' is registered already");
  }
  registry().push_back(std::move(info));
}

}  // namespace bov
