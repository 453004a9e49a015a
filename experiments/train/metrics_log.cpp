#include "experiments/train/metrics_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <stdexcept>
#include <string>
#include <system_error>

#include "bov/io/atomic_file.h"

namespace bov::experiments {
namespace {

[[noreturn]] void fail(const std::filesystem::path& file, const std::string& what) {
  throw std::runtime_error(file.string() + ": " + what + ": " + std::generic_category().message(errno));
}

}  // namespace

MetricsLog::MetricsLog(std::filesystem::path file, int64_t last_step) : file_(std::move(file)) {
  if (std::filesystem::exists(file_)) keep_rows_until(last_step);
  descriptor_ = open(file_.c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor_ < 0) fail(file_, "cannot be opened for appending");
}

MetricsLog::~MetricsLog() {
  close(descriptor_);
}

void MetricsLog::append(const nlohmann::json& row) {
  const std::string line = row.dump() + '\n';
  const ssize_t written = write(descriptor_, line.data(), line.size());
  if (written < 0) fail(file_, "cannot be written");
  if (static_cast<size_t>(written) != line.size()) {
    errno = ENOSPC;
    fail(file_, "was cut off");
  }
  note(row);
}

void MetricsLog::flush() {
  if (fsync(descriptor_) != 0) fail(file_, "cannot be flushed");
}

void MetricsLog::keep_rows_until(int64_t last_step) {
  std::ifstream in(file_);
  if (!in) fail(file_, "cannot be read");
  std::string kept;
  int64_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (in.eof()) break;  // no newline: a killed process was writing it
    const auto row = nlohmann::json::parse(line, nullptr, false);
    if (!row.is_object() || !row.contains("step") || !row["step"].is_number_integer()) {
      throw std::runtime_error(file_.string() + ":" + std::to_string(number) +
                               ": no log row: " + line.substr(0, 80));
    }
    if (row["step"].get<int64_t>() > last_step) continue;
    kept += line + '\n';
    note(row);
  }
  atomic_write_text(file_, kept);
}

void MetricsLog::note(const nlohmann::json& row) {
  if (row.contains("coefficients")) last_coefficients_ = row["coefficients"];
  if (!row.contains("validation_bpb")) return;
  evaluated_.insert(row["step"].get<int64_t>());
  last_evaluation_ = row;
}

}  // namespace bov::experiments
