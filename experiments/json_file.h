#pragma once

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

namespace bov::experiments {

/// What `read` makes of the JSON in `file`. Throws std::runtime_error naming the file if it cannot be opened, is no JSON
/// or is not what `read` takes it for.
template <typename Read>
auto read_json_file(const std::filesystem::path& file, Read read) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw std::runtime_error("cannot open " + file.string() + ": " + std::strerror(errno));
  try {
    return read(nlohmann::json::parse(in));
  } catch (const nlohmann::json::exception& error) {
    throw std::runtime_error(file.string() + " is damaged: " + error.what());
  }
}

}  // namespace bov::experiments
