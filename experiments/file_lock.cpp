#include "experiments/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace bov::experiments {
namespace {

[[noreturn]] void fail(const std::filesystem::path& file, const char* what) {
  throw std::runtime_error(file.string() + ": cannot be " + what + ": " +
                           std::generic_category().message(errno));
}

}  // namespace

FileLock::FileLock(std::filesystem::path file)
    : file_(std::move(file)), descriptor_(open(file_.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644)) {
  if (descriptor_ < 0) fail(file_, "made");
}

FileLock::~FileLock() {
  close(descriptor_);
}

void FileLock::lock() {
  if (flock(descriptor_, LOCK_EX) != 0) fail(file_, "locked");
}

bool FileLock::try_lock() {
  if (flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return true;
  if (errno != EWOULDBLOCK) fail(file_, "locked");
  return false;
}

}  // namespace bov::experiments
