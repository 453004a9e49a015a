#include "experiments/ablation/cuda_devices.h"

#include <torch/cuda.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <sstream>
#include <stdexcept>

namespace bov::experiments {
namespace {

int64_t parse_index(const std::string& text, int64_t seen) {
  int64_t index = -1;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, index);
  if (error == std::errc() && stop == end && 0 <= index && index < seen) return index;
  throw std::invalid_argument("--devices names \"" + text + "\"; LibTorch sees " + std::to_string(seen) +
                              " CUDA devices" +
                              (seen == 0 ? "" : ", expected indices from 0 to " + std::to_string(seen - 1)));
}

std::vector<std::string> split(const std::string& list) {
  std::istringstream in(list);
  std::vector<std::string> entries;
  for (std::string entry; std::getline(in, entry, ',');) entries.push_back(entry);
  return entries;
}

}  // namespace

std::vector<std::string> visible_cuda_devices(const std::vector<std::string>& wanted) {
  if (wanted.empty()) return {};
  return visible_cuda_devices(wanted, static_cast<int64_t>(torch::cuda::device_count()),
                              std::getenv("CUDA_VISIBLE_DEVICES"));
}

std::vector<std::string> visible_cuda_devices(const std::vector<std::string>& wanted,
                                              int64_t seen,
                                              const char* visible) {
  const std::vector<std::string> own = visible == nullptr ? std::vector<std::string>() : split(visible);
  std::vector<std::string> devices;
  for (const std::string& text : wanted) {
    const auto index = static_cast<size_t>(parse_index(text, seen));
    devices.push_back(index < own.size() ? own[index] : std::to_string(index));
    if (std::count(devices.begin(), devices.end(), devices.back()) > 1) {
      throw std::invalid_argument("--devices names " + text + " twice");
    }
  }
  return devices;
}

}  // namespace bov::experiments
