#include "experiments/environment.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <sys/resource.h>
#include <torch/version.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "csrc/version.h"
#include "experiments/source_commit.h"

namespace bov::experiments {
namespace {

/// The text behind `key` and a colon in a file of /proc, empty if there is none.
std::string proc_field(const std::filesystem::path& file, const std::string& key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(key)) continue;
    const size_t colon = line.find(':');
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    return colon == std::string::npos || begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

/// The vector extensions of this processor, of those that change how fast torch computes.
std::vector<std::string> vector_features() {
  constexpr std::array kRelevant = {"avx2",        "fma",      "f16c",  "avx512f",
                                    "avx512_bf16", "amx_bf16", "asimd", "sve"};
  std::istringstream flags(proc_field("/proc/cpuinfo", "flags") + proc_field("/proc/cpuinfo", "Features"));
  std::vector<std::string> found;
  for (std::string flag; flags >> flag;) {
    if (std::ranges::find(kRelevant, flag) != kRelevant.end()) found.push_back(flag);
  }
  return found;
}

/// Model names as the NVIDIA driver gives them; readable without a CUDA build.
std::vector<std::string> gpu_names() {
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/driver/nvidia/gpus", none)) {
    names.push_back(proc_field(entry.path() / "information", "Model"));
  }
  return names;
}

std::vector<std::string> command_line() {
  std::ifstream in("/proc/self/cmdline");
  std::vector<std::string> arguments;
  for (std::string argument; std::getline(in, argument, '\0');) arguments.push_back(argument);
  return arguments;
}

}  // namespace

nlohmann::json describe_environment() {
  const int64_t memory = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  return {{"versions",
           {{"bov", ops::version()},
            {"commit", source_commit()},
            {"libtorch", TORCH_VERSION},
            {"compiler", BOV_COMPILER}}},
          {"hardware",
           {{"cpu", proc_field("/proc/cpuinfo", "model name")},
            {"features", vector_features()},
            {"torch_cpu_capability", at::get_cpu_capability()},
            {"cores", sysconf(_SC_NPROCESSORS_ONLN)},
            {"memory_bytes", memory},
            {"gpus", gpu_names()}}},
          {"threads", at::get_num_threads()},
          {"command", command_line()}};
}

int64_t peak_memory_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<int64_t>(usage.ru_maxrss) * 1024;
}

}  // namespace bov::experiments
