#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

namespace bov::experiments {

/// What benchmarks are fed with: a device, and token ids as text has them.
class BenchInputs {
 public:
  /// Ids come from the training documents of `data`, a folder made by `bov data build`, or are drawn from Zipf's law
  /// without one. Throws std::runtime_error for a folder that cannot be read.
  BenchInputs(c10::Device device, const std::optional<std::filesystem::path>& data, uint64_t seed);

  c10::Device device() const { return device_; }

  /// [count] int64 on the device, each in [0, rows). Throws std::runtime_error if the data folder has fewer tokens or
  /// an id of `rows` or more.
  at::Tensor token_ids(int64_t count, int64_t rows) const { return ids_(count, rows).to(device_); }

 private:
  c10::Device device_;
  std::function<at::Tensor(int64_t count, int64_t rows)> ids_;
};

/// Copies of a tensor that are read in turns, so that each call finds its input in memory and not in a cache.
class ColdTensor {
 public:
  /// Enough copies that calls which read `bytes` of one (all of it by default) read 256 MiB before they come back to the
  /// first, but no more than take 2 GiB.
  explicit ColdTensor(const at::Tensor& tensor, std::optional<int64_t> bytes = std::nullopt);

  const at::Tensor& next() { return copies_[turn_++ % copies_.size()]; }
  /// All of them, for what is made once from each.
  const std::vector<at::Tensor>& copies() const { return copies_; }

 private:
  std::vector<at::Tensor> copies_;
  size_t turn_ = 0;
};

}  // namespace bov::experiments
