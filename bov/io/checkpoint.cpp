#include "bov/io/checkpoint.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "bov/io/atomic_file.h"
#include "bov/io/checkpoint_manifest.h"

namespace bov {
namespace {

namespace fs = std::filesystem;

constexpr const char* kModelFile = "model.safetensors";
constexpr const char* kPrefix = "step-";
constexpr const char* kTemporary = ".tmp-";

/// The optional files and where their tensors belong.
constexpr std::pair<const char*, TensorMap CheckpointContents::*> kOtherFiles[] = {
    {"optimizer.safetensors", &CheckpointContents::optimizer},
    {"state.safetensors", &CheckpointContents::state}};

// Removes a folder and all below it; nothing if it does not exist. Not std::filesystem::remove_all: libtorch 2.11 exports
// one of a newer libstdc++, which crashes in a program that links libtorch before an older libstdc++.
void remove_folder(const fs::path& folder) {
  if (!fs::exists(folder)) return;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.is_directory() && !entry.is_symlink()) {
      remove_folder(entry.path());
    } else {
      fs::remove(entry.path());
    }
  }
  fs::remove(folder);
}

/// Removes a folder when the scope ends, whatever is in it then.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(fs::path path) : path_(std::move(path)) {}
  ~TemporaryFolder() {
    try {
      remove_folder(path_);
    } catch (const fs::filesystem_error&) {
      // The next prune_checkpoints tries again.
    }
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

fs::path temporary_for(fs::path path) {
  path += kTemporary + std::to_string(::getpid());
  return path;
}

std::optional<int64_t> parse_number(const std::string& text) {
  int64_t number = 0;
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, number);
  const bool valid = result.ec == std::errc() && result.ptr == end && number >= 0;
  return valid ? std::optional(number) : std::nullopt;
}

struct Listing {
  std::vector<std::pair<int64_t, fs::path>> checkpoints;  // highest step first
  std::vector<std::pair<int64_t, fs::path>> temporaries;  // by the writer's process id
};

Listing list(const fs::path& checkpoints) {
  Listing listing;
  if (!fs::exists(checkpoints)) return listing;
  for (const auto& entry : fs::directory_iterator(checkpoints)) {
    const std::string name = entry.path().filename().string();
    if (!entry.is_directory() || name.rfind(kPrefix, 0) != 0) continue;
    const size_t mark = name.rfind(kTemporary);
    if (const auto step = parse_number(name.substr(std::strlen(kPrefix)))) {
      listing.checkpoints.emplace_back(*step, entry.path());
    } else if (mark != std::string::npos) {
      const auto writer = parse_number(name.substr(mark + std::strlen(kTemporary)));
      if (writer) listing.temporaries.emplace_back(*writer, entry.path());
    }
  }
  std::sort(listing.checkpoints.rbegin(), listing.checkpoints.rend());
  std::sort(listing.temporaries.begin(), listing.temporaries.end());
  return listing;
}

void rename_or_throw(const fs::path& from, const fs::path& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) {
    throw std::runtime_error("cannot rename '" + from.string() + "' to '" + to.string() +
                             "': " + std::strerror(errno));
  }
}

/// Gives the finished folder its name. An older folder of that name ends up under the temporary one.
void put_in_place(const fs::path& temporary, const fs::path& target) {
  if (!fs::exists(target)) {
    rename_or_throw(temporary, target);
  } else if (::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) != 0) {
    // A file system without exchange, as NFS: for a moment neither has the name.
    const fs::path aside = temporary_for(target.string() + ".replaced");
    rename_or_throw(target, aside);
    try {
      rename_or_throw(temporary, target);
    } catch (const std::runtime_error&) {
      rename_or_throw(aside, target);
      throw;
    }
    remove_folder(aside);
  }
}

CheckpointFile write_tensors(const fs::path& path, const TensorMap& tensors, const TensorRowsMap& rows) {
  save_safetensors(path, tensors, {}, rows);
  return measure_checkpoint_file(path);
}

void write_folder(const fs::path& folder, const CheckpointContents& contents) {
  remove_folder(folder);  // left by a crashed process that had our id
  fs::create_directories(folder);
  CheckpointManifest manifest{contents.step, {}, contents.metadata};
  manifest.files[kModelFile] = write_tensors(folder / kModelFile, contents.model, contents.model_rows);
  for (const auto& [name, tensors] : kOtherFiles) {
    const bool is_optimizer = tensors == &CheckpointContents::optimizer;
    const TensorRowsMap rows = is_optimizer ? contents.optimizer_rows : TensorRowsMap();
    if ((contents.*tensors).empty() && rows.empty()) continue;
    manifest.files[name] = write_tensors(folder / name, contents.*tensors, rows);
  }
  write_manifest(folder, manifest);
}

template <typename Check>
void check_files(const fs::path& checkpoint, Check check) {
  for (const auto& [name, expected] : read_manifest(checkpoint).files) check(checkpoint / name, expected);
}

bool is_complete(const fs::path& checkpoint) {
  try {
    check_files(checkpoint, check_size);
    return true;
  } catch (const std::runtime_error&) {
    return false;
  }
}

bool is_running(int64_t process) {
  return ::kill(static_cast<pid_t>(process), 0) == 0 || errno == EPERM;
}

}  // namespace

fs::path save_checkpoint(const fs::path& checkpoints, const CheckpointContents& contents) {
  TORCH_CHECK(contents.step >= 0, "checkpoint step is ", contents.step, "; expected at least 0");
  const fs::path target = checkpoints / (kPrefix + std::to_string(contents.step));
  try {
    const TemporaryFolder temporary(temporary_for(target));
    write_folder(temporary.path(), contents);
    put_in_place(temporary.path(), target);
    sync_folder(checkpoints);
  } catch (const std::runtime_error& error) {
    throw std::runtime_error("cannot save checkpoint '" + target.string() + "': " + error.what() +
                             "; earlier checkpoints are untouched");
  }
  return target;
}

CheckpointContents load_checkpoint(const fs::path& checkpoint, CheckpointParts parts) {
  const CheckpointManifest manifest = read_manifest(checkpoint);
  if (!manifest.files.count(kModelFile)) {
    throw std::runtime_error("the manifest of checkpoint '" + checkpoint.string() + "' lists no " +
                             kModelFile);
  }
  const auto load = [&](const std::string& name) {
    check_bytes(checkpoint / name, manifest.files.at(name));
    return load_safetensors(checkpoint / name);
  };
  CheckpointContents contents;
  contents.step = manifest.step;
  contents.metadata = manifest.metadata;
  contents.model = load(kModelFile);
  if (parts == CheckpointParts::model) return contents;
  for (const auto& [name, tensors] : kOtherFiles) {
    if (manifest.files.count(name)) contents.*tensors = load(name);
  }
  return contents;
}

LatestCheckpoint latest_checkpoint(const fs::path& checkpoints) {
  LatestCheckpoint latest;
  const Listing listing = list(checkpoints);
  for (const auto& [writer, path] : listing.temporaries) {
    latest.skipped.push_back(
        {path, "unfinished: process " + std::to_string(writer) + " did not complete it"});
  }
  for (const auto& [step, path] : listing.checkpoints) {
    try {
      check_files(path, check_bytes);
      latest.path = path;
      break;
    } catch (const std::runtime_error& error) {
      latest.skipped.push_back({path, error.what()});
    }
  }
  return latest;
}

std::vector<fs::path> prune_checkpoints(const fs::path& checkpoints, int64_t keep) {
  TORCH_CHECK(keep >= 1, "checkpoints to keep: ", keep, "; expected at least 1");
  std::vector<fs::path> removed;
  const Listing listing = list(checkpoints);
  for (const auto& [writer, path] : listing.temporaries) {
    if (writer != ::getpid() && is_running(writer)) continue;
    remove_folder(path);
    removed.push_back(path);
  }
  int64_t kept = 0;
  for (const auto& [step, path] : listing.checkpoints) {
    if (kept < keep) {
      kept += is_complete(path) ? 1 : 0;
      continue;
    }
    // Under a temporary name first, so that an interrupted removal leaves no half checkpoint.
    const fs::path temporary = temporary_for(path);
    rename_or_throw(path, temporary);
    remove_folder(temporary);
    removed.push_back(path);
  }
  return removed;
}

}  // namespace bov
