#include "experiments/tokenizer/token_table.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "experiments/tokenizer/tokenizer_files.h"

namespace bov::experiments {

TokenTable::TokenTable(std::vector<std::string> pieces, int32_t bos, uint64_t hash)
    : pieces_(std::move(pieces)), bos_(bos), hash_(hash) {
  if (bos < 0 || bos >= vocab_size() || !pieces_[bos].empty()) {
    throw std::runtime_error("token table: bos is id " + std::to_string(bos) +
                             ", which is no special of a vocabulary of " + std::to_string(vocab_size()));
  }
  token_bytes_.reserve(pieces_.size());
  for (const std::string& piece : pieces_) token_bytes_.push_back(static_cast<int32_t>(piece.size()));
}

TokenTable TokenTable::load(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kTokenizerTableFile;
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot open " + path.string() + "; `bov tokenizer train` makes it");
  try {
    return parse_token_table(nlohmann::json::parse(file));
  } catch (const std::exception& error) {
    throw std::runtime_error(path.string() + " is no tokenizer table of bov: " + error.what());
  }
}

const std::string& TokenTable::piece(int32_t id) const {
  if (id < 0 || id >= vocab_size()) {
    throw std::out_of_range("token id " + std::to_string(id) + " is outside the vocabulary of " +
                            std::to_string(vocab_size()));
  }
  return pieces_[static_cast<size_t>(id)];
}

std::string TokenTable::decode(std::span<const int32_t> ids) const {
  std::string text;
  for (const int32_t id : ids) text += piece(id);
  return text;
}

}  // namespace bov::experiments
