#pragma once

#include <optional>

/// Settings of the whole process that decide how fast small tensors are computed on a CPU. They must be made before
/// the first tensor; docs/experiments.md has the measurements behind them.
namespace bov::experiments {

/// To be called first in main. Keeps freed memory in the process, because handing megabytes back to the kernel costs
/// a page fault for each page at every training step, and lets idle OpenMP threads sleep instead of spinning, which
/// on a shared machine slows the threads that work. libgomp reads its environment when it is loaded, so the
/// program starts itself again once if OMP_WAIT_POLICY is not set. Values that the user has set are kept.
void prepare_process(char** argv);

/// Number of computing threads (default: what torch takes from OMP_NUM_THREADS or the cores), one thread between
/// operators, and denormals flushed to zero, which the threads made later inherit. To be called once, before the first
/// tensor. Throws std::invalid_argument for fewer than one thread.
void prepare_computation(std::optional<int> threads);

}  // namespace bov::experiments
