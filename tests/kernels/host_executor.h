#pragma once

#include <ucontext.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "csrc/kernels/launch.h"

namespace bov::testing {

/// Runs the kernels of csrc/kernels on the host, whole grids of whole blocks, barriers and shuffles included.
/// The threads of a block are coroutines that take turns: one runs until it waits at a barrier or a shuffle, or ends.
/// A deadlock, in which the threads of a block or of a warp wait in different places, throws.
class HostExecutor {
 public:
  static constexpr int kWarp = 32;

  /// A thread's view of its block, as csrc/kernels/launch.h says.
  class Thread {
   public:
    Thread(HostExecutor& executor, int index) : executor_(executor), index_(index) {}
    int index() const { return index_; }
    int count() const { return executor_.size_.threads; }
    int64_t block_x() const { return executor_.x_; }
    int64_t block_y() const { return executor_.y_; }
    int64_t block_z() const { return executor_.z_; }
    void* shared() const { return executor_.shared_.data(); }

    /// Waits for all threads of the block that have not ended.
    void sync() const { executor_.wait(index_, Waiting::block); }

    /// The value of the lane of the warp whose number differs in the bits of `mask`.
    template <typename T>
    T shuffle_xor(T value, int mask) const {
      static_assert(sizeof(T) <= sizeof(double));
      // Two places in turns: one that has read may offer anew before the others have read.
      const int turn = executor_.lanes_[index_].turn ^= 1;
      std::memcpy(&executor_.lanes_[index_].offered[turn], &value, sizeof(T));
      executor_.wait(index_, Waiting::warp);
      const int from = index_ ^ mask;
      if (from / kWarp != index_ / kWarp || from >= count()) {
        throw std::logic_error("shuffle_xor: no such lane in the warp");
      }
      std::memcpy(&value, &executor_.lanes_[from].offered[turn], sizeof(T));
      return value;
    }

   private:
    HostExecutor& executor_;
    int index_;
  };

  /// Runs a kernel as a launch does.
  template <typename Kernel>
  void launch(const Kernel& kernel) {
    run(kernel.size(), [&](const Thread& thread) { kernel(thread); });
  }

  /// Calls kernel(thread) for every thread of every block.
  void run(const kernels::LaunchSize& size, const std::function<void(const Thread&)>& kernel) {
    kernel_ = &kernel;
    size_ = size;
    if (memory_.size() < static_cast<size_t>(size.threads)) {
      memory_.resize(size.threads);
    }
    lanes_ = std::span(memory_).first(size.threads);
    for (z_ = 0; z_ < size.z; ++z_) {
      for (y_ = 0; y_ < size.y; ++y_) {
        for (x_ = 0; x_ < size.x; ++x_) {
          shared_.assign(size.shared_bytes + sizeof(double), std::byte{0xff});
          run_block();
        }
      }
    }
  }

 private:
  enum class Waiting { nothing, block, warp, end };
  static constexpr size_t kStackBytes = 64 * 1024;
  struct Lane {
    ucontext_t context;
    std::unique_ptr<char[]> stack;
    Waiting waiting = Waiting::nothing;
    double offered[2];
    int turn = 0;
  };

  void run_block() {
    for (size_t i = 0; i < lanes_.size(); ++i) {
      Lane& lane = lanes_[i];
      if (lane.stack == nullptr) {
        lane.stack = std::make_unique_for_overwrite<char[]>(kStackBytes);
      }
      lane.waiting = Waiting::nothing;
      lane.turn = 0;
      getcontext(&lane.context);
      lane.context.uc_stack.ss_sp = lane.stack.get();
      lane.context.uc_stack.ss_size = kStackBytes;
      lane.context.uc_link = &scheduler_;
      // makecontext passes ints alone.
      const auto self = reinterpret_cast<uintptr_t>(this);
      makecontext(&lane.context, reinterpret_cast<void (*)()>(&HostExecutor::enter), 3,
                  static_cast<unsigned>(self >> 32), static_cast<unsigned>(self), static_cast<int>(i));
    }
    while (advance()) {
    }
    if (error_ != nullptr) {
      std::rethrow_exception(std::exchange(error_, nullptr));
    }
  }

  static void enter(unsigned high, unsigned low, int index) {
    auto* self = reinterpret_cast<HostExecutor*>(uintptr_t{high} << 32 | low);
    try {
      (*self->kernel_)(Thread(*self, index));
    } catch (...) {
      self->error_ = std::current_exception();
    }
    self->lanes_[index].waiting = Waiting::end;
  }

  void wait(int index, Waiting what) {
    lanes_[index].waiting = what;
    swapcontext(&lanes_[index].context, &scheduler_);
  }

  /// Runs every thread that waits for nothing, then opens the barriers that all have reached. False at the end.
  bool advance() {
    for (Lane& lane : lanes_) {
      if (lane.waiting == Waiting::nothing) {
        swapcontext(&scheduler_, &lane.context);
        if (error_ != nullptr) {
          return false;
        }
      }
    }
    const bool warps_opened = open_warps();
    const bool block_opened = open(0, lanes_.size(), Waiting::block);
    bool ended = true;
    for (const Lane& lane : lanes_) {
      ended &= lane.waiting == Waiting::end;
    }
    if (!ended && !warps_opened && !block_opened) {
      throw std::logic_error("the threads of a block wait for each other in different places");
    }
    return !ended;
  }

  bool open_warps() {
    bool opened = false;
    for (size_t begin = 0; begin < lanes_.size(); begin += kWarp) {
      opened |= open(begin, std::min(begin + kWarp, lanes_.size()), Waiting::warp);
    }
    return opened;
  }

  /// Lets the threads [begin, end) go on if those that have not ended all wait for `what`. A warp's shuffle needs all
  /// of its lanes, so none of them may have ended.
  bool open(size_t begin, size_t end, Waiting what) {
    size_t waiting = 0;
    size_t ended = 0;
    for (size_t i = begin; i < end; ++i) {
      waiting += lanes_[i].waiting == what;
      ended += lanes_[i].waiting == Waiting::end;
    }
    if (waiting == 0 || waiting + (what == Waiting::block ? ended : 0) != end - begin) {
      return false;
    }
    for (size_t i = begin; i < end; ++i) {
      if (lanes_[i].waiting == what) {
        lanes_[i].waiting = Waiting::nothing;
      }
    }
    return true;
  }

  ucontext_t scheduler_;
  std::vector<Lane> memory_;  ///< kept from run to run
  std::span<Lane> lanes_;     ///< of the threads of a block
  std::vector<std::byte> shared_;
  kernels::LaunchSize size_{};
  int64_t x_ = 0, y_ = 0, z_ = 0;  ///< the block that runs
  const std::function<void(const Thread&)>* kernel_ = nullptr;
  std::exception_ptr error_;
};

}  // namespace bov::testing
