#include "experiments/tokenizer/tokenizer_files.h"

#include <charconv>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace bov::experiments {
namespace {

constexpr const char* kFormat = "bov-tokenizer";
constexpr int kVersion = 1;

std::string to_hex(const std::string& bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const char byte : bytes) {
    hex += kDigits[static_cast<unsigned char>(byte) >> 4];
    hex += kDigits[static_cast<unsigned char>(byte) & 15];
  }
  return hex;
}

template <typename Integer>
Integer parse_hex(std::string_view text) {
  Integer value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw std::runtime_error("'" + std::string(text) + "' is no hexadecimal number");
  }
  return value;
}

std::string from_hex(const std::string& hex) {
  if (hex.size() % 2 != 0)
    throw std::runtime_error("the piece '" + hex + "' has an odd number of hex digits");
  std::string bytes;
  for (size_t at = 0; at < hex.size(); at += 2) {
    bytes += static_cast<char>(parse_hex<uint8_t>(std::string_view(hex).substr(at, 2)));
  }
  return bytes;
}

}  // namespace

std::string hash_text(uint64_t hash) {
  std::string bytes;
  for (int shift = 56; shift >= 0; shift -= 8) bytes += static_cast<char>(hash >> shift);
  return to_hex(bytes);
}

nlohmann::json token_table_json(const TokenTable& table) {
  nlohmann::json pieces = nlohmann::json::array();
  for (int32_t id = 0; id < table.vocab_size(); ++id) pieces.push_back(to_hex(table.piece(id)));
  return {{"format", kFormat},
          {"version", kVersion},
          {"hash", hash_text(table.hash())},
          {"vocab_size", table.vocab_size()},
          {"bos", table.bos()},
          {"pieces", std::move(pieces)}};
}

TokenTable parse_token_table(const nlohmann::json& json) {
  if (!json.is_object() || json.value("format", "") != kFormat) {
    throw std::runtime_error(std::string("its format is not '") + kFormat + "'");
  }
  if (json.at("version") != kVersion) {
    throw std::runtime_error("its version is " + json.at("version").dump() + ", expected " +
                             std::to_string(kVersion));
  }
  std::vector<std::string> pieces;
  for (const nlohmann::json& piece : json.at("pieces")) pieces.push_back(from_hex(piece.get<std::string>()));
  if (json.at("vocab_size") != pieces.size()) {
    throw std::runtime_error("it holds " + std::to_string(pieces.size()) + " pieces, but vocab_size is " +
                             json.at("vocab_size").dump());
  }
  return TokenTable(std::move(pieces), json.at("bos").get<int32_t>(),
                    parse_hex<uint64_t>(json.at("hash").get<std::string>()));
}

}  // namespace bov::experiments
