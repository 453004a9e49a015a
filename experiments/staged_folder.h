#pragma once

#include <filesystem>

namespace bov::experiments {

/// A folder that appears whole or not at all: it is filled under a temporary name beside `target` and gets its name when it
/// is finished.
class StagedFolder {
 public:
  /// Makes the temporary folder. Throws std::runtime_error if `target` exists, std::filesystem::filesystem_error if the
  /// folder cannot be made.
  explicit StagedFolder(std::filesystem::path target);
  /// Removes the folder and all in it if publish() was not reached.
  ~StagedFolder();
  StagedFolder(const StagedFolder&) = delete;
  StagedFolder& operator=(const StagedFolder&) = delete;

  /// Where to write.
  const std::filesystem::path& path() const { return temporary_; }
  /// Gives the folder its name. Throws std::filesystem::filesystem_error, as if meanwhile somebody else made it.
  void publish();

 private:
  std::filesystem::path target_;
  std::filesystem::path temporary_;
};

}  // namespace bov::experiments
