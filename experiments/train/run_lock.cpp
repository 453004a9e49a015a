#include "experiments/train/run_lock.h"

#include <stdexcept>

namespace bov::experiments {

RunLock::RunLock(const std::filesystem::path& folder) : lock_(folder / "lock") {
  if (!lock_.try_lock()) {
    throw std::runtime_error(folder.string() + ": another process trains in this folder");
  }
}

}  // namespace bov::experiments
