#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

/// The manifest.json of a checkpoint folder; internal to bov/io.
namespace bov {

struct CheckpointFile {
  uint64_t bytes = 0;
  std::string crc32;  ///< 8 hexadecimal digits
};

struct CheckpointManifest {
  int64_t step = 0;
  std::map<std::string, CheckpointFile> files;  ///< by file name in the folder
  std::string metadata;                         ///< JSON text
};

/// Size and checksum of the file at `path`. Throws std::runtime_error if it cannot be read.
CheckpointFile measure_checkpoint_file(const std::filesystem::path& path);

/// Throws std::runtime_error if the metadata is no JSON or the file cannot be written.
void write_manifest(const std::filesystem::path& folder, const CheckpointManifest& manifest);

/// Throws std::runtime_error naming the file if it is missing, damaged, or of another format version.
CheckpointManifest read_manifest(const std::filesystem::path& folder);

/// Throws std::runtime_error naming the file, what was found and what the manifest says: missing, or another size.
void check_size(const std::filesystem::path& path, const CheckpointFile& expected);

/// As check_size, and the checksum too, for which the file is read in full.
void check_bytes(const std::filesystem::path& path, const CheckpointFile& expected);

}  // namespace bov
