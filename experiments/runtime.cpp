#include "experiments/runtime.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <malloc.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

namespace bov::experiments {
namespace {

void start_again_with_sleeping_threads() {
  setenv("OMP_WAIT_POLICY", "passive", 1);
  setenv("GOMP_SPINCOUNT", "0", 0);
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> arguments;
  for (std::string argument; std::getline(file, argument, '\0');) arguments.push_back(argument);
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  execv("/proc/self/exe", pointers.data());
  // Without /proc the program goes on with threads that spin: slower where cores are shared.
}

}  // namespace

void keep_freed_memory() {
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
}

void set_threads(std::optional<int> threads) {
  if (threads) {
    if (*threads < 1) {
      throw std::invalid_argument("--threads is " + std::to_string(*threads) + "; expected at least 1");
    }
    at::set_num_threads(*threads);
  }
  at::set_num_interop_threads(1);
  at::globalContext().setFlushDenormal(true);
}

void prepare_computation(std::optional<int> threads) {
  if (std::getenv("OMP_WAIT_POLICY") == nullptr) start_again_with_sleeping_threads();
  set_threads(threads);
}

}  // namespace bov::experiments
