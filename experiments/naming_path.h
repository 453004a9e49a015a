#pragma once

#include <c10/util/Exception.h>

#include <filesystem>
#include <stdexcept>

namespace bov::experiments {

/// What `work` returns. A c10::Error of it, which knows of tensors alone, becomes a std::runtime_error that begins with
/// `path`.
template <typename Work>
auto naming_path(const std::filesystem::path& path, Work work) -> decltype(work()) {
  try {
    return work();
  } catch (const c10::Error& error) {
    throw std::runtime_error(path.string() + ": " + error.what_without_backtrace());
  }
}

}  // namespace bov::experiments
