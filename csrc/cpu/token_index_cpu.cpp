#include <ATen/ATen.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "csrc/cpu/checked_ids.h"
#include "csrc/token_index_contract.h"

namespace bov::ops {
namespace {

struct IdAt {
  int32_t id, position;
};

/// The ids by ascending id, equal ones by ascending position: a radix sort, least significant byte first.
std::vector<IdAt> sort_ids(const int64_t* ids, int64_t n, int64_t rows) {
  constexpr int kDigitBits = 8;
  constexpr int32_t kDigits = 1 << kDigitBits;
  std::vector<IdAt> sorted(n);
  std::vector<IdAt> next(n);
  for (int64_t i = 0; i < n; ++i) {
    sorted[i] = {static_cast<int32_t>(ids[i]), static_cast<int32_t>(i)};
  }
  for (int shift = 0; ((rows - 1) >> shift) > 0; shift += kDigitBits) {
    const auto digit = [shift](const IdAt& entry) { return (entry.id >> shift) & (kDigits - 1); };
    std::array<int64_t, kDigits + 1> begin{};
    for (const IdAt& entry : sorted) {
      ++begin[digit(entry) + 1];
    }
    std::partial_sum(begin.begin(), begin.end(), begin.begin());
    for (const IdAt& entry : sorted) {
      next[begin[digit(entry)]++] = entry;
    }
    sorted.swap(next);
  }
  return sorted;
}

TokenIndexTensors token_index_cpu(const at::Tensor& ids, int64_t rows) {
  check_token_index(ids, rows);
  const at::Tensor list = cpu::checked_ids("token_index", ids, rows);
  const int64_t n = list.numel();
  const std::vector<IdAt> sorted = sort_ids(list.const_data_ptr<int64_t>(), n, rows);
  TokenIndexTensors index = empty_token_index(ids, rows);
  auto& [positions, offsets, distinct, count] = index;
  auto* position = positions.mutable_data_ptr<int32_t>();
  auto* offset = offsets.mutable_data_ptr<int32_t>();
  auto* id = distinct.mutable_data_ptr<int32_t>();
  int64_t found = 0;
  for (int64_t k = 0; k < n; ++k) {
    position[k] = sorted[k].position;
    if (k == 0 || sorted[k].id != sorted[k - 1].id) {
      offset[found] = static_cast<int32_t>(k);
      id[found++] = sorted[k].id;
    }
  }
  std::fill(offset + found, offset + offsets.numel(), static_cast<int32_t>(n));
  std::fill(id + found, id + distinct.numel(), static_cast<int32_t>(rows));
  count.fill_(found);
  return index;
}

}  // namespace

TORCH_LIBRARY_IMPL(bov, CPU, m) {
  m.impl("token_index", token_index_cpu);
}

}  // namespace bov::ops
