#pragma once

#include <optional>

/// Settings of the whole process that decide how fast small tensors are computed on a CPU. They must be made before
/// the first tensor. Measured with a 12-layer model of width 96 on two cores, LibTorch 2.11, in tokens a second.
namespace bov::experiments {

/// Keeps freed memory in the process, because handing megabytes back to the kernel costs a page fault for each page at
/// every training step: 3,120 instead of 2,900 with one thread. To be called first in main.
void keep_freed_memory();

/// Number of computing threads (default: what torch takes from OMP_NUM_THREADS or the cores), one thread between
/// operators, and denormals flushed to zero, which the threads made later inherit. To be called once, before the first
/// tensor. Throws std::invalid_argument for fewer than one thread.
void set_threads(std::optional<int> threads);

/// set_threads for a command that computes for long: it also lets idle OpenMP threads sleep instead of spinning. Two
/// processes of two threads each make 4,600 together instead of 300 to 1,500; one process alone loses up to a sixth of
/// its 4,000. libgomp reads its environment when it is loaded, so the program starts itself again once if
/// OMP_WAIT_POLICY is not set; what the user has set is kept. Nothing may have been written or read before.
void prepare_computation(std::optional<int> threads);

}  // namespace bov::experiments
