#include "experiments/tokenizer/tokenizer.h"

#include <fstream>
#include <iterator>
#include <stdexcept>

#include "experiments/data/text_hash.h"
#include "experiments/tokenizer/backend/tokenizer_backend.h"
#include "experiments/tokenizer/text_encoder.h"
#include "experiments/tokenizer/tokenizer_files.h"

namespace bov::experiments {
namespace {

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot open " + path.string() + "; `bov tokenizer train` makes it");
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::vector<int32_t> find_byte_ids(const TokenTable& table) {
  std::vector<int32_t> ids(256, -1);
  // Byte pieces come before the learned ones, so the first piece of one byte is the byte piece.
  for (int32_t id = table.vocab_size() - 1; id >= 0; --id) {
    const std::string& piece = table.piece(id);
    if (piece.size() == 1) ids[static_cast<unsigned char>(piece[0])] = id;
  }
  for (size_t byte = 0; byte < ids.size(); ++byte) {
    if (ids[byte] < 0)
      throw std::runtime_error("the tokenizer has no piece for byte " + std::to_string(byte));
  }
  return ids;
}

}  // namespace

Tokenizer::Tokenizer(TokenTable table, std::shared_ptr<const TokenizerBackend> backend)
    : table_(std::move(table)), byte_ids_(find_byte_ids(table_)), backend_(std::move(backend)) {}

Tokenizer Tokenizer::load(const std::filesystem::path& folder) {
  TokenTable table = TokenTable::load(folder);
  const std::filesystem::path model_path = folder / kTokenizerModelFile;
  const std::string model = read_file(model_path);
  if (text_hash(model) != table.hash()) {
    throw std::runtime_error(model_path.string() + " has hash " + hash_text(text_hash(model)) + ", but " +
                             kTokenizerTableFile + " beside it is of the model with hash " +
                             hash_text(table.hash()));
  }
  return Tokenizer(std::move(table), std::make_shared<TokenizerBackend>(model));
}

std::vector<int32_t> Tokenizer::encode(std::string_view text) const {
  return TextEncoder(*this).encode(text);
}

}  // namespace bov::experiments
