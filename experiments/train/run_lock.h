#pragma once

#include <filesystem>

#include "experiments/file_lock.h"

namespace bov::experiments {

/// Keeps a second process out of a run's folder while this object lives.
class RunLock {
 public:
  /// Locks `folder`/lock. Throws std::runtime_error if another process holds it or the file cannot be made.
  explicit RunLock(const std::filesystem::path& folder);

 private:
  FileLock lock_;
};

}  // namespace bov::experiments
