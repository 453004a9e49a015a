#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <cstring>

#include "experiments/bench/ops/op_benches.h"

namespace bov::experiments {

BenchCase copy_case(int64_t bytes, c10::Device device) {
  const auto options = at::device(device).dtype(at::kByte);
  const at::Tensor from = at::zeros({bytes}, options);
  const at::Tensor to = at::zeros({bytes}, options);
  const auto copy = [from, to, bytes] {
    if (!to.is_cpu()) {
      to.copy_(from);
      return;
    }
    constexpr int64_t kPage = 4096;
    at::parallel_for(0, bytes, kPage, [&](int64_t begin, int64_t end) {
      std::memcpy(to.mutable_data_ptr<uint8_t>() + begin, from.const_data_ptr<uint8_t>() + begin,
                  end - begin);
    });
  };
  return {device.is_cpu() ? "memcpy" : "device copy", copy, 2.0 * static_cast<double>(bytes)};
}

std::vector<BenchGroup> copy_benches(const BenchInputs& inputs) {
  std::vector<BenchGroup> groups;
  for (const int64_t mib : {64, 256}) {
    groups.push_back({.op = "copy",
                      .problem = std::to_string(mib) + " MiB",
                      .baseline = inputs.device().is_cpu() ? "memcpy" : "device copy",
                      .make = [device = inputs.device(), mib] {
                        return std::vector<BenchCase>{copy_case(mib << 20, device)};
                      }});
  }
  return groups;
}

}  // namespace bov::experiments
