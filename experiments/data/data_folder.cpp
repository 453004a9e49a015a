#include "experiments/data/data_folder.h"

#include <stdexcept>
#include <string>

#include "experiments/data/data_files.h"
#include "experiments/data/data_identity.h"
#include "experiments/json_file.h"
#include "experiments/tokenizer/tokenizer_files.h"

namespace bov::experiments {
namespace {

nlohmann::json read_manifest(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kManifestFile;
  if (!DataFolder::exists(folder)) {
    throw std::runtime_error("no finished data in '" + folder.string() + "': it has no " + kManifestFile +
                             "; `bov data build` makes it");
  }
  return read_json_file(path, [&path](nlohmann::json manifest) {
    if (!manifest.is_object() || manifest.value("format", nlohmann::json()) != kDataFormat) {
      throw std::runtime_error(path.string() + " is no data manifest of bov");
    }
    if (manifest.at("version") != kDataVersion) {
      throw std::runtime_error(path.string() + " has version " + manifest.at("version").dump() +
                               ", this program reads " + std::to_string(kDataVersion) +
                               "; build the data again");
    }
    data_identity(manifest);
    for (const char* split : {"train", "validation"}) {
      for (const char* count : {"documents", "tokens", "bytes"}) manifest.at(split).at(count).get<int64_t>();
    }
    for (const char* reason : {"empty", "invalid", "invalid_bytes"}) {
      manifest.at("read").at("skipped").at(reason).get<int64_t>();
    }
    manifest.at("tokenizer").at("vocab_size").get<int64_t>();
    return manifest;
  });
}

void check_shard(const TokenShard& shard, const nlohmann::json& entry, const TokenTable& tokens) {
  const std::string name = "token shard " + shard.path().string();
  const TokenShardInfo& info = shard.info();
  if (info.tokenizer_hash != tokens.hash() || info.vocab_size != tokens.vocab_size() ||
      info.bos != tokens.bos()) {
    throw std::runtime_error(name + " was made with tokenizer " + hash_text(info.tokenizer_hash) +
                             ", but the folder's tokenizer is " + hash_text(tokens.hash()));
  }
  if (info.documents != entry.at("documents") || info.tokens != entry.at("tokens") ||
      info.checksum != entry.at("checksum")) {
    throw std::runtime_error(name + " is not the one in the manifest; build the data again");
  }
}

TokenDocuments open_split(const std::filesystem::path& folder,
                          const nlohmann::json& split,
                          const TokenTable& tokens) {
  std::vector<TokenShard> shards;
  for (const nlohmann::json& entry : split.at("shards")) {
    shards.push_back(TokenShard::open(folder / entry.at("file").get<std::string>()));
    check_shard(shards.back(), entry, tokens);
  }
  return TokenDocuments(std::move(shards));
}

}  // namespace

DataFolder::DataFolder(nlohmann::json manifest,
                       TokenTable tokens,
                       TokenDocuments train,
                       TokenDocuments validation)
    : manifest_(std::move(manifest)),
      tokens_(std::move(tokens)),
      train_(std::move(train)),
      validation_(std::move(validation)) {}

nlohmann::json DataFolder::identity() const {
  return data_identity(manifest_);
}

int64_t DataFolder::size_in_bytes() const {
  int64_t bytes = 0;
  for (const TokenDocuments* split : {&train_, &validation_}) {
    for (const TokenShard& shard : split->shards()) bytes += shard.size_in_bytes();
  }
  return bytes;
}

void DataFolder::verify() const {
  for (const TokenDocuments* split : {&train_, &validation_}) {
    for (const TokenShard& shard : split->shards()) shard.verify();
  }
}

bool DataFolder::verify_if_quick() const {
  if (size_in_bytes() > kQuickBytes) return false;
  verify();
  return true;
}

bool DataFolder::exists(const std::filesystem::path& folder) {
  return std::filesystem::exists(folder / kManifestFile);
}

DataFolder DataFolder::open(const std::filesystem::path& folder) {
  if (folder.empty()) {
    throw std::runtime_error("data.shards is empty; expected a folder made by `bov data build`");
  }
  nlohmann::json manifest = read_manifest(folder);
  try {
    TokenTable tokens = TokenTable::load(folder / kTokenizerFolder);
    TokenDocuments train = open_split(folder, manifest.at("train"), tokens);
    TokenDocuments validation = open_split(folder, manifest.at("validation"), tokens);
    return DataFolder(std::move(manifest), std::move(tokens), std::move(train), std::move(validation));
  } catch (const nlohmann::json::exception& error) {
    throw std::runtime_error((folder / kManifestFile).string() + " is damaged: " + error.what());
  }
}

}  // namespace bov::experiments
