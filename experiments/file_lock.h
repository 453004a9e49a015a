#pragma once

#include <filesystem>

namespace bov::experiments {

/// An exclusive lock between processes on a file, which stays there. The lock goes with this object, or with the process,
/// however it ends. Errors are std::runtime_error and name the file and the system's reason.
class FileLock {
 public:
  /// Opens the file, which is made if it is missing; nothing is locked yet.
  explicit FileLock(std::filesystem::path file);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  /// Waits for the lock.
  void lock();
  /// False, at once, if another process holds it.
  bool try_lock();

 private:
  std::filesystem::path file_;
  int descriptor_;
};

}  // namespace bov::experiments
