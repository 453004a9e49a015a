#pragma once

#include <filesystem>

namespace bov::experiments {

/// Keeps a second process out of a run's folder while this object lives. The lock goes with the process, however it
/// ends.
class RunLock {
 public:
  /// Locks `folder`/lock. Throws std::runtime_error if another process holds it or the file cannot be made.
  explicit RunLock(const std::filesystem::path& folder);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  int descriptor_;
};

}  // namespace bov::experiments
