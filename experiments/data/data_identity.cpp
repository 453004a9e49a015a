#include "experiments/data/data_identity.h"

#include <cstdint>

#include "experiments/data/text_hash.h"
#include "experiments/tokenizer/tokenizer_files.h"

namespace bov::experiments {
namespace {

std::string shards_digest(const nlohmann::json& split) {
  std::string text;
  for (const nlohmann::json& shard : split.at("shards")) {
    for (const char* count : {"checksum", "documents", "tokens"}) {
      text += std::to_string(shard.at(count).get<int64_t>()) + ' ';
    }
  }
  return hash_text(text_hash(text));
}

}  // namespace

nlohmann::json data_identity(const nlohmann::json& manifest) {
  return {{"tokenizer", manifest.at("tokenizer").at("hash").get<std::string>()},
          {"validation_per_mille", manifest.at("validation_per_mille").get<int>()},
          {"train", shards_digest(manifest.at("train"))},
          {"validation", shards_digest(manifest.at("validation"))}};
}

std::string identity_difference(const nlohmann::json& there, const nlohmann::json& here) {
  if (!there.is_object()) return "data is " + there.dump() + " there and " + here.dump() + " here";
  for (const auto& [name, value] : here.items()) {
    const nlohmann::json other = there.value(name, nlohmann::json());
    if (other != value) return name + " is " + other.dump() + " there and " + value.dump() + " here";
  }
  return "";
}

}  // namespace bov::experiments
