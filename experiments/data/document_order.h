#pragma once

#include <cstdint>
#include <vector>

namespace bov::experiments {

/// The numbers 0 to `count` - 1 in an order that `seed` and `epoch` alone decide. `count` is at most 2^32 - 1.
std::vector<uint32_t> shuffled_documents(int64_t count, uint64_t seed, int64_t epoch);

}  // namespace bov::experiments
