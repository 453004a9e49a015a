#pragma once

#include <cstddef>
#include <filesystem>
#include <string_view>

#include "bov/export.h"

namespace bov {

/// A file that appears whole or not at all. Bytes go to a temporary beside `path`; commit() flushes them to
/// the disk and renames. Until then, and after any error, an earlier file at `path` is untouched.
///
/// Throws std::runtime_error for every error, which names the path and the system's reason (disk full, no permission,
/// missing folder) and says whether the earlier file is untouched.
class BOV_API AtomicFile {
 public:
  /// Creates the temporary. The folder must exist.
  explicit AtomicFile(std::filesystem::path path);
  /// Removes the temporary if commit() was not reached.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Appends `size` bytes, unbuffered: few large writes are cheaper than many small ones. After an error the
  /// temporary is gone and the object can only be destroyed.
  void write(const void* data, std::size_t size);
  /// The bytes of `text`.
  void write(std::string_view text) { write(text.data(), text.size()); }

  /// Makes the bytes durable and puts the file in place. At most once; nothing may be written afterwards.
  void commit();

 private:
  void discard() noexcept;
  [[noreturn]] void fail(const char* action);

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
};

/// Replaces the file at `path` by `text` in one step. Throws as AtomicFile.
BOV_API void atomic_write_text(const std::filesystem::path& path, std::string_view text);

/// Makes the names in `folder` durable after a rename. Throws std::runtime_error naming the folder and the
/// reason.
BOV_API void sync_folder(const std::filesystem::path& folder);

}  // namespace bov
