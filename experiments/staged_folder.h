#pragma once

#include <filesystem>

namespace bov::experiments {

/// Throws std::runtime_error unless `path` is a name for something new: nothing is there, and the folder that it is to lie
/// in exists.
void check_new_path(const std::filesystem::path& path);

/// A folder that appears whole or not at all: it is filled under a temporary name beside `target` and gets its name when it
/// is finished.
class StagedFolder {
 public:
  /// Makes the temporary folder, and removes those for `target` whose processes do not run (on this machine) any more.
  /// Throws std::runtime_error as check_new_path, and if the folder cannot be made.
  explicit StagedFolder(std::filesystem::path target);
  /// Removes the folder and all in it if publish() was not reached.
  ~StagedFolder();
  StagedFolder(const StagedFolder&) = delete;
  StagedFolder& operator=(const StagedFolder&) = delete;

  /// Where to write.
  const std::filesystem::path& path() const { return temporary_; }
  /// The name that the folder gets: absolute, without symbolic links.
  const std::filesystem::path& target() const { return target_; }
  /// Gives the folder its name. Throws std::filesystem::filesystem_error, as if meanwhile somebody else made it.
  void publish();

 private:
  std::filesystem::path target_;
  std::filesystem::path temporary_;
};

}  // namespace bov::experiments
