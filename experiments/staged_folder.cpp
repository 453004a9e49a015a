#include "experiments/staged_folder.h"

#include <unistd.h>

#include <stdexcept>
#include <string>
#include <utility>

#include "bov/io/atomic_file.h"

namespace bov::experiments {

namespace fs = std::filesystem;

StagedFolder::StagedFolder(fs::path target) : target_(fs::absolute(std::move(target)).lexically_normal()) {
  if (!target_.has_filename()) target_ = target_.parent_path();
  if (fs::exists(target_)) throw std::runtime_error(target_.string() + " exists; choose another folder");
  temporary_ = target_;
  temporary_ += ".tmp-" + std::to_string(::getpid());
  fs::remove_all(temporary_);  // of a process that had the same id and was killed
  fs::create_directories(temporary_);
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
