#include "experiments/staged_folder.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <stdexcept>
#include <string>
#include <vector>

#include "bov/io/atomic_file.h"

namespace bov::experiments {
namespace {

namespace fs = std::filesystem;

/// `path` without a slash at its end.
fs::path without_slash(const fs::path& path) {
  return path.has_filename() ? path : path.parent_path();
}

/// Symbolic links resolved in all but the name itself.
fs::path resolved(const fs::path& path) {
  const fs::path absolute = without_slash(fs::absolute(path));
  return fs::canonical(absolute.parent_path()) / absolute.filename();
}

/// Whether `digits` is the id of a process that may still write.
bool is_running(const std::string& digits) {
  pid_t process = 0;
  const char* end = digits.data() + digits.size();
  const auto result = std::from_chars(digits.data(), end, process);
  if (result.ec != std::errc() || result.ptr != end || process <= 0)
    return true;  // no id: not ours to remove
  return process != ::getpid() && (::kill(process, 0) == 0 || errno == EPERM);
}

void remove_leftovers(const fs::path& folder, const std::string& prefix) {
  std::vector<fs::path> leftovers;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (name.starts_with(prefix) && entry.is_directory() && !is_running(name.substr(prefix.size()))) {
      leftovers.push_back(entry.path());
    }
  }
  for (const fs::path& leftover : leftovers) {
    std::error_code ignored;  // it may be another user's
    fs::remove_all(leftover, ignored);
  }
}

}  // namespace

void check_new_path(const fs::path& path) {
  if (path.empty()) throw std::runtime_error("the name of what is to be made is empty");
  const fs::path name = without_slash(path);
  if (fs::exists(fs::symlink_status(name))) {
    throw std::runtime_error(path.string() + " exists; choose another name");
  }
  const fs::path folder = fs::absolute(name).parent_path();
  if (!fs::is_directory(folder)) {
    throw std::runtime_error(path.string() + " cannot be made: there is no folder " + folder.string());
  }
}

StagedFolder::StagedFolder(fs::path target) {
  check_new_path(target);
  target_ = resolved(target);
  const std::string prefix = target_.filename().string() + ".tmp-";
  remove_leftovers(target_.parent_path(), prefix);
  temporary_ = target_.parent_path() / (prefix + std::to_string(::getpid()));
  std::error_code error;
  fs::create_directory(temporary_, error);
  if (error) throw std::runtime_error(target.string() + " cannot be made: " + error.message());
}

StagedFolder::~StagedFolder() {
  std::error_code ignored;
  fs::remove_all(temporary_, ignored);
}

void StagedFolder::publish() {
  fs::rename(temporary_, target_);
  sync_folder(target_.parent_path());
}

}  // namespace bov::experiments
