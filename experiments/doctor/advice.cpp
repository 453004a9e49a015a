#include "experiments/doctor/advice.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <sstream>

namespace bov::experiments {
namespace {

using AdviceList = std::vector<Advice>;

constexpr int64_t kLittleMemory = int64_t{2} << 30;
constexpr int kLowestCapability = 8;  // the kernels hold code for sm_80 and later

bool has_feature(const DoctorFacts& facts, const std::string& feature) {
  return std::ranges::find(facts.cpu.features, feature) != facts.cpu.features.end();
}

bool has_library(const DoctorFacts& facts, const std::string& prefix) {
  const auto found = facts.libraries.lower_bound(prefix);
  return found != facts.libraries.end() && found->first.starts_with(prefix);
}

void advise_build(const DoctorFacts& facts, AdviceList& list) {
  if (!facts.build.optimized) {
    list.push_back({"this is a build with assertions, made for finding errors",
                    "measure and train with the preset cpu-release or cuda-release"});
  }
  if (!facts.torch.new_abi) {
    list.push_back({"LibTorch uses the old ABI of std::string, other libraries of this machine the new one",
                    "use a LibTorch of 2.7 or later"});
  }
  if (!facts.tokenizer_problem.empty()) {
    list.push_back(
        {facts.tokenizer_problem, "build again; the tokenizer library belongs beside the program"});
  }
}

void advise_cuda(const DoctorFacts& facts, AdviceList& list) {
  const CudaDriver& cuda = facts.cuda;
  if (facts.build.cuda_build.empty()) {
    if (!cuda.devices.empty()) {
      list.push_back(
          {"this machine has an NVIDIA GPU, but bov was built without CUDA kernels",
           "install nvcc and a LibTorch with CUDA, then run scripts/bov with BOV_PRESET=cuda-release"});
    }
    return;
  }
  if (cuda.devices.empty()) {
    list.push_back({"bov was built with CUDA kernels, but no GPU can be used: " + cuda.problem,
                    "nothing, if you train on the CPU; else install the NVIDIA driver and check nvidia-smi"});
    return;
  }
  if (cuda.version / 1000 < facts.cuda_runtime / 1000) {
    list.push_back({"the NVIDIA driver runs CUDA " + cuda_version_text(cuda.version) + ", LibTorch needs " +
                        cuda_version_text(facts.cuda_runtime),
                    "install a newer driver (580 or later for CUDA 13)"});
  }
  for (const CudaDevice& device : cuda.devices) {
    if (device.capability_major < kLowestCapability) {
      list.push_back({device.name + " has compute capability " + std::to_string(device.capability_major) +
                          "." + std::to_string(device.capability_minor) +
                          "; the CUDA kernels need 8.0 or more",
                      "build with -D CMAKE_CUDA_ARCHITECTURES=" + std::to_string(device.capability_major) +
                          std::to_string(device.capability_minor)});
    }
  }
}

void advise_threads(const DoctorFacts& facts, AdviceList& list) {
  const auto threads = std::to_string(facts.cpu.threads);
  if (facts.cpu.threads > facts.cpu.cores) {
    const auto cores = std::to_string(facts.cpu.cores);
    list.push_back({threads + " threads on " + cores + " cores", "set OMP_NUM_THREADS=" + cores});
  } else if (facts.cpu.quota && facts.cpu.threads > std::ceil(*facts.cpu.quota)) {
    const auto granted = std::to_string(static_cast<int>(std::ceil(*facts.cpu.quota)));
    list.push_back({threads + " threads, but the container grants " + granted + " cores",
                    "set OMP_NUM_THREADS=" + granted});
  }
  // One busy program besides the doctor itself is nothing unusual.
  if (facts.cpu.load > facts.cpu.cores + 1) {
    std::ostringstream load;
    load << std::fixed << std::setprecision(1) << facts.cpu.load;
    list.push_back({"other programs keep this machine busy: load " + load.str() + " on " +
                        std::to_string(facts.cpu.cores) + " cores",
                    "wait for them before you measure"});
  }
  const auto policy = facts.variables.find("OMP_WAIT_POLICY");
  if (policy != facts.variables.end() && policy->second != "passive" && policy->second != "PASSIVE") {
    list.push_back({"OMP_WAIT_POLICY is '" + policy->second +
                        "': waiting threads spin, which slows the working ones on a shared machine",
                    "unset it; bov then sets it to passive"});
  }
  if (has_library(facts, "libgomp") && has_library(facts, "libiomp")) {
    list.push_back({"two OpenMP runtimes are loaded, libgomp and libiomp5, each with its own threads",
                    "remove libiomp5 from LD_PRELOAD and from what you link"});
  }
}

void advise_cpu(const DoctorFacts& facts, AdviceList& list) {
  if (!has_feature(facts, "avx2") && !has_feature(facts, "asimd")) {
    list.push_back({"the processor has no AVX2: torch uses its slowest kernels", "use a newer machine"});
  }
  if (has_feature(facts, "avx512f") && facts.cpu.torch_capability == "AVX2") {
    list.push_back({"the processor has AVX-512, torch uses AVX2",
                    "unset ATEN_CPU_CAPABILITY, or try ATEN_CPU_CAPABILITY=avx512 and compare"});
  }
  if (has_library(facts, "libopenblas") || has_library(facts, "libblas") || has_library(facts, "libmkl")) {
    list.push_back(
        {"a second BLAS library is loaded; it may replace LibTorch's own functions of the same names",
         "do not link or preload a BLAS beside LibTorch"});
  }
  if (facts.memory.available_bytes < kLittleMemory) {
    list.push_back({"less than 2 GiB of memory is free", "end other programs, or train smaller models"});
  }
}

}  // namespace

std::vector<Advice> advise(const DoctorFacts& facts) {
  AdviceList list;
  advise_build(facts, list);
  advise_cuda(facts, list);
  advise_threads(facts, list);
  advise_cpu(facts, list);
  return list;
}

}  // namespace bov::experiments
