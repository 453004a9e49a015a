#include "experiments/runtime.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <malloc.h>
#include <unistd.h>

#include <cstdlib>
#include <limits>
#include <stdexcept>
#include <string>

namespace bov::experiments {

void prepare_process(char** argv) {
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  if (std::getenv("OMP_WAIT_POLICY") == nullptr) {
    setenv("OMP_WAIT_POLICY", "passive", 1);
    setenv("GOMP_SPINCOUNT", "0", 0);
    execv("/proc/self/exe", argv);
    // Without /proc the program goes on with threads that spin: slower where cores are shared.
  }
}

void prepare_computation(std::optional<int> threads) {
  if (threads) {
    if (*threads < 1) {
      throw std::invalid_argument("--threads is " + std::to_string(*threads) + "; expected at least 1");
    }
    at::set_num_threads(*threads);
  }
  at::set_num_interop_threads(1);
  at::globalContext().setFlushDenormal(true);
}

}  // namespace bov::experiments
