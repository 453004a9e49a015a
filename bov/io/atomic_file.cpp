#include "bov/io/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

namespace bov {
namespace {

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

// A number that no other writer of this process has taken; writers of other processes differ by their id.
std::filesystem::path temporary_beside(const std::filesystem::path& path) {
  static std::atomic<unsigned> counter{0};
  std::filesystem::path temporary = path;
  temporary += ".tmp-" + std::to_string(::getpid()) + "-" + std::to_string(counter++);
  return temporary;
}

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path path) : path_(std::move(path)) {
  do {
    temporary_ = temporary_beside(path_);
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    // A name taken already is the leftover of a crashed process that had our id.
  } while (descriptor_ < 0 && errno == EEXIST);
  if (descriptor_ < 0) fail("create");
}

AtomicFile::~AtomicFile() {
  discard();
}

void AtomicFile::write(const void* data, std::size_t size) {
  if (descriptor_ < 0) throw std::logic_error("write to '" + path_.string() + "' after it was closed");
  const char* next = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written = ::write(descriptor_, next, size);
    if (written < 0) {
      if (errno == EINTR) continue;
      fail("write");
    }
    next += written;
    size -= static_cast<std::size_t>(written);
  }
}

void AtomicFile::commit() {
  if (descriptor_ < 0) throw std::logic_error("commit of '" + path_.string() + "' after it was closed");
  if (::fsync(descriptor_) != 0) fail("flush");
  // Network file systems report a full disk as late as here.
  if (::close(std::exchange(descriptor_, -1)) != 0) fail("close");
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail("put in place");
  temporary_.clear();
  sync_folder(folder_of(path_));
}

void AtomicFile::discard() noexcept {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  temporary_.clear();
}

void AtomicFile::fail(const char* action) {
  const std::string reason = std::strerror(errno);
  discard();
  throw std::runtime_error("cannot " + std::string(action) + " '" + path_.string() + "': " + reason +
                           " (an earlier file of that name is untouched)");
}

void atomic_write_text(const std::filesystem::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

void sync_folder(const std::filesystem::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool opened = descriptor >= 0;
  // EINVAL: a file system without this call, where a rename is durable by itself.
  const bool synced = opened && (::fsync(descriptor) == 0 || errno == EINVAL);
  const std::string reason = std::strerror(errno);
  if (opened) ::close(descriptor);
  if (!synced) throw std::runtime_error("cannot flush the folder '" + folder.string() + "': " + reason);
}

}  // namespace bov
