#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace bov::experiments {

/// What tells two data folders apart wherever they lie, from the manifest of one: the tokenizer's hash, the rule of the
/// split, and for each split 16 hex digits of its shards' checksums and counts. Throws nlohmann::json::exception for a
/// manifest that lacks one of them.
nlohmann::json data_identity(const nlohmann::json& manifest);

/// "train is 1f.. there and 2e.. here" for the first entry in which two identities differ; empty if none does.
std::string identity_difference(const nlohmann::json& there, const nlohmann::json& here);

}  // namespace bov::experiments
