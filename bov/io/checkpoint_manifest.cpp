#include "bov/io/checkpoint_manifest.h"

#include <zlib.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <vector>

#include "bov/io/atomic_file.h"

namespace bov {
namespace {

// The caller's metadata keeps the order of its keys.
using json = nlohmann::ordered_json;

constexpr const char* kFileName = "manifest.json";
constexpr const char* kFormat = "bov-checkpoint";
constexpr int64_t kFormatVersion = 1;

std::runtime_error problem(const std::filesystem::path& path, const std::string& text) {
  return std::runtime_error("checkpoint file '" + path.string() + "' " + text);
}

std::string hexadecimal(unsigned long value) {
  std::array<char, 9> text{};
  std::snprintf(text.data(), text.size(), "%08lx", value & 0xffffffffUL);
  return text.data();
}

void check_format(const std::filesystem::path& path, const json& root) {
  const json format = root.value("format", json());
  if (format != kFormat)
    throw problem(path, "has format " + format.dump() + "; expected \"" + kFormat + "\"");
  const json version = root.value("format_version", json());
  if (version != kFormatVersion) {
    throw problem(path, "has format_version " + version.dump() + "; this program reads " +
                            std::to_string(kFormatVersion));
  }
}

}  // namespace

CheckpointFile measure_checkpoint_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw problem(path, "cannot be opened");
  CheckpointFile result;
  unsigned long checksum = ::crc32(0, nullptr, 0);
  std::vector<char> block(1 << 20);
  while (file) {
    file.read(block.data(), static_cast<std::streamsize>(block.size()));
    const auto count = static_cast<size_t>(file.gcount());
    checksum = ::crc32_z(checksum, reinterpret_cast<const Bytef*>(block.data()), count);
    result.bytes += count;
  }
  if (!file.eof()) throw problem(path, "cannot be read after byte " + std::to_string(result.bytes));
  result.crc32 = hexadecimal(checksum);
  return result;
}

void write_manifest(const std::filesystem::path& folder, const CheckpointManifest& manifest) {
  json root = {{"format", kFormat}, {"format_version", kFormatVersion}, {"step", manifest.step}};
  root["files"] = json::object();
  for (const auto& [name, file] : manifest.files) {
    root["files"][name] = {{"bytes", file.bytes}, {"crc32", file.crc32}};
  }
  try {
    root["metadata"] = json::parse(manifest.metadata);
  } catch (const json::exception& error) {
    throw std::runtime_error(std::string("the checkpoint's metadata is no JSON: ") + error.what());
  }
  atomic_write_text(folder / kFileName, root.dump(2) + "\n");
}

CheckpointManifest read_manifest(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kFileName;
  std::ifstream file(path, std::ios::binary);
  if (!file) throw problem(path, "is missing or cannot be opened");
  try {
    const json root = json::parse(file);
    check_format(path, root);
    CheckpointManifest manifest;
    manifest.step = root.at("step").get<int64_t>();
    for (const auto& [name, entry] : root.at("files").items()) {
      manifest.files[name] = {entry.at("bytes").get<uint64_t>(), entry.at("crc32").get<std::string>()};
    }
    manifest.metadata = root.at("metadata").dump();
    return manifest;
  } catch (const json::exception& error) {
    throw problem(path, std::string("is damaged: ") + error.what());
  }
}

void check_size(const std::filesystem::path& path, const CheckpointFile& expected) {
  std::error_code error;
  const uint64_t bytes = std::filesystem::file_size(path, error);
  if (error) {
    throw problem(path, "is missing or unreadable (" + error.message() + "); the manifest lists it with " +
                            std::to_string(expected.bytes) + " bytes");
  }
  if (bytes != expected.bytes) {
    throw problem(
        path, "has " + std::to_string(bytes) + " bytes; the manifest says " + std::to_string(expected.bytes));
  }
}

void check_bytes(const std::filesystem::path& path, const CheckpointFile& expected) {
  check_size(path, expected);
  const CheckpointFile found = measure_checkpoint_file(path);
  if (found.crc32 != expected.crc32) {
    throw problem(path, "is damaged: its CRC-32 is " + found.crc32 + "; the manifest says " + expected.crc32);
  }
}

}  // namespace bov
