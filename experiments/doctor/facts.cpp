#include "experiments/doctor/facts.h"

#include <ATen/Version.h>
#include <c10/core/ScalarType.h>

#include <array>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>

#include "csrc/version.h"
#include "experiments/doctor/measurements.h"
#include "experiments/environment.h"
#include "experiments/tokenizer/backend/tokenizer_backend.h"

namespace bov::experiments {
namespace {

namespace fs = std::filesystem;

/// The value of "KEY=value" in torch's description of its build, whose settings are separated by ", ".
std::optional<std::string> build_setting(const std::string& description, const std::string& key) {
  const size_t begin = description.find(" " + key + "=");
  if (begin == std::string::npos) return std::nullopt;
  const size_t value = begin + key.size() + 2;
  return description.substr(value, description.find_first_of(",\n", value) - value);
}

DoctorFacts::Torch torch_facts(const nlohmann::json& environment) {
  DoctorFacts::Torch torch;
  torch.version = environment["versions"]["libtorch"];
  torch.new_abi = _GLIBCXX_USE_CXX11_ABI != 0;
  const std::string description = at::show_config();
  for (const char* key : {"BUILD_TYPE", "COMMIT_SHA", "BLAS_INFO", "CUDA_VERSION", "CUDNN_VERSION"}) {
    if (auto value = build_setting(description, key)) torch.settings[key] = *value;
  }
  torch.mkl = at::get_mkl_version();
  torch.onednn = at::get_mkldnn_version();
  torch.openmp = at::get_openmp_version();
  return torch;
}

/// Cores that a control group of version 2 grants ("quota period" in microseconds, or "max period").
std::optional<double> cpu_quota() {
  std::ifstream in("/sys/fs/cgroup/cpu.max");
  double quota = 0;
  double period = 0;
  if (in >> quota >> period && period > 0) return quota / period;
  return std::nullopt;
}

double load_average() {
  double load = 0;
  return getloadavg(&load, 1) == 1 ? load : 0;
}

DoctorFacts::Cpu cpu_facts(const nlohmann::json& environment) {
  const auto& hardware = environment["hardware"];
  return {.model = hardware["cpu"],
          .features = hardware["features"],
          .torch_capability = hardware["torch_cpu_capability"],
          .cores = hardware["cores"],
          .quota = cpu_quota(),
          .threads = environment["threads"],
          .load = load_average()};
}

int64_t available_memory() {
  std::ifstream in("/proc/meminfo");
  for (std::string key; in >> key;) {
    int64_t kilobytes = 0;
    if (key == "MemAvailable:" && in >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

std::map<std::string, std::string> relevant_variables() {
  constexpr std::array kNames = {"OMP_NUM_THREADS",      "OMP_WAIT_POLICY", "OMP_PROC_BIND",
                                 "GOMP_CPU_AFFINITY",    "GOMP_SPINCOUNT",  "KMP_AFFINITY",
                                 "MKL_NUM_THREADS",      "LD_PRELOAD",      "LD_LIBRARY_PATH",
                                 "ATEN_CPU_CAPABILITY",  "BOV_TORCH",       "CMAKE_PREFIX_PATH",
                                 "CUDA_VISIBLE_DEVICES", "CUDA_HOME"};
  std::map<std::string, std::string> found;
  for (const char* name : kNames) {
    if (const char* value = std::getenv(name)) found[name] = value;
  }
  return found;
}

/// Read from the memory map, which also shows the tokenizer's libraries in their namespace of their own.
std::map<std::string, std::string> relevant_libraries() {
  constexpr std::array<std::string_view, 19> kPrefixes = {
      "libbov",    "libc10",     "libtorch",  "libgomp",   "libiomp",         "libmkl",   "libopenblas",
      "libblas",   "libcuda.so", "libcudart", "libcudnn",  "libcublas",       "libcupti", "libnccl",
      "libstdc++", "libz.so",    "libfmt",    "libspdlog", "libsentencepiece"};
  std::map<std::string, std::string> found;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const size_t slash = line.find('/');
    if (slash == std::string::npos) continue;
    const fs::path path = line.substr(slash);
    const std::string name = path.filename();
    for (const std::string_view prefix : kPrefixes) {
      if (name.starts_with(prefix)) found[name] = path.parent_path();
    }
  }
  return found;
}

std::string tokenizer_problem() {
  try {
    load_tokenizer_backend();
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace

DoctorFacts collect_facts(bool measure) {
  const nlohmann::json environment = describe_environment();
  DoctorFacts facts;
  facts.build = {.version = ops::version(),
                 .commit = environment["versions"]["commit"],
                 .compiler = environment["versions"]["compiler"],
                 .cuda_build = ops::cuda_build()};
#ifndef NDEBUG
  facts.build.optimized = false;
#endif
  facts.torch = torch_facts(environment);
  facts.cuda = query_cuda_driver();
  facts.cuda_runtime = loaded_cuda_runtime_version();
  facts.cpu = cpu_facts(environment);
  facts.memory = {.total_bytes = environment["hardware"]["memory_bytes"],
                  .available_bytes = available_memory()};
  facts.variables = relevant_variables();
  facts.tokenizer_problem = tokenizer_problem();
  facts.libraries = relevant_libraries();
  if (measure) {
    // Processors without bfloat16 instructions are a hundred times slower at it, hence the small size.
    facts.measured = {.matmul_float32 = measure_matmul_rate(at::kFloat, 1024),
                      .matmul_bfloat16 = measure_matmul_rate(at::kBFloat16, 256),
                      .copy = measure_copy_rate()};
  }
  return facts;
}

}  // namespace bov::experiments
