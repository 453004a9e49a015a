#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "experiments/tokenizer/token_table.h"

namespace bov::experiments {

/// Files of a tokenizer folder.
inline constexpr const char* kTokenizerModelFile = "tokenizer.model";
inline constexpr const char* kTokenizerTableFile = "tokenizer.json";

/// The table as JSON: format, version, hash (16 hex digits), bos and `pieces`, each piece's bytes in hex.
nlohmann::json token_table_json(const TokenTable& table);
/// Reads what token_table_json() wrote. Throws std::exception naming the field that is wrong.
TokenTable parse_token_table(const nlohmann::json& json);

/// 16 lower-case hex digits.
std::string hash_text(uint64_t hash);

}  // namespace bov::experiments
