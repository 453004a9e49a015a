#pragma once

#include <cstddef>

#include "csrc/kernels/host_device.h"

/// A kernel is a struct of its arguments with two members: `size()`, the threads that run it, and a call operator, what
/// one of them does. The operator knows its place from a `Thread`, which also waits for and talks to the others of
/// its block. Devices (launch.cuh) and tests (tests/kernels/host_executor.h) run the same kernels at the same sizes.
namespace bov::kernels {

struct LaunchSize {
  int64_t x, y, z;  ///< blocks
  int threads;      ///< in a block
  size_t shared_bytes = 0;
};

/// Threads in a block of kernels whose threads each do one entry of a list.
constexpr int kListThreads = 256;

inline LaunchSize list_size(int64_t count) {
  return {ceil_div(count, kListThreads), 1, 1, kListThreads};
}

template <typename Thread>
BOV_HOST_DEVICE int64_t list_entry(const Thread& thread) {
  return thread.block_x() * kListThreads + thread.index();
}

}  // namespace bov::kernels
