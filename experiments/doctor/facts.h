#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "experiments/doctor/cuda_driver.h"

namespace bov::experiments {

/// What `bov doctor` finds out about this program and this machine.
struct DoctorFacts {
  struct Build {
    std::string version;
    std::string commit;
    std::string compiler;
    bool optimized = true;   ///< built without assertions, as a release is
    std::string cuda_build;  ///< compiler and architectures of the CUDA kernels; empty without them
  };
  struct Torch {
    std::string version;
    bool new_abi = true;  ///< std::string of C++11 and later (_GLIBCXX_USE_CXX11_ABI)
    /// Settings that LibTorch itself was built with: "BLAS_INFO", "CUDA_VERSION", ...; absent where it names none.
    std::map<std::string, std::string> settings;
    std::string mkl;
    std::string onednn;
    std::string openmp;
  };
  struct Cpu {
    std::string model;
    std::vector<std::string> features;
    std::string torch_capability;  ///< the instructions that torch chose: "AVX2", "AVX512", ...
    int cores = 0;
    std::optional<double> quota;  ///< cores that the control group grants, if it limits them
    int threads = 0;              ///< of torch, within an operator
    double load = 0;              ///< programs that wanted to run in the last minute, on average
  };
  struct Memory {
    int64_t total_bytes = 0;
    int64_t available_bytes = 0;
  };
  /// Operations or bytes a second.
  struct Measured {
    double matmul_float32 = 0;
    double matmul_bfloat16 = 0;
    double copy = 0;
  };

  Build build;
  Torch torch;
  CudaDriver cuda;
  int cuda_runtime = 0;  ///< version of the CUDA runtime in this process
  Cpu cpu;
  Memory memory;
  std::map<std::string, std::string> variables;  ///< environment variables that change speed or results
  std::map<std::string, std::string> libraries;  ///< file name -> folder, of the loaded ones that matter here
  std::string tokenizer_problem;                 ///< why the tokenizer library cannot be loaded, if so
  std::optional<Measured> measured;
};

/// Measuring takes about a second.
DoctorFacts collect_facts(bool measure);

}  // namespace bov::experiments
