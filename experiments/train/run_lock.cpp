#include "experiments/train/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>
#include <string>
#include <system_error>

namespace bov::experiments {

RunLock::RunLock(const std::filesystem::path& folder) {
  const std::string file = folder / "lock";
  descriptor_ = open(file.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644);
  if (descriptor_ < 0) {
    throw std::runtime_error(file + ": cannot be made: " + std::generic_category().message(errno));
  }
  if (flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    close(descriptor_);
    if (error == EWOULDBLOCK) {
      throw std::runtime_error(folder.string() + ": another process trains in this folder");
    }
    throw std::runtime_error(file + ": cannot be locked: " + std::generic_category().message(error));
  }
}

RunLock::~RunLock() {
  close(descriptor_);
}

}  // namespace bov::experiments
