#include "experiments/data/document_order.h"

#include <cstddef>
#include <numeric>
#include <utility>

namespace bov::experiments {
namespace {

// SplitMix64 (Steele, Lea and Flood 2014): the order must not depend on a standard library's distributions.
class SplitMix {
 public:
  explicit SplitMix(uint64_t state) : state_(state) {}
  uint64_t next() {
    uint64_t mixed = state_ += 0x9e3779b97f4a7c15;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
    return mixed ^ (mixed >> 31);
  }
  // Uniform in [0, bound) up to a bias of bound / 2^64.
  uint64_t below(uint64_t bound) {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(next()) * bound) >> 64);
  }

 private:
  uint64_t state_;
};

}  // namespace

std::vector<uint32_t> shuffled_documents(int64_t count, uint64_t seed, int64_t epoch) {
  std::vector<uint32_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0u);
  SplitMix random(SplitMix(seed).next() + static_cast<uint64_t>(epoch));
  for (size_t last = order.size(); last > 1; --last) std::swap(order[last - 1], order[random.below(last)]);
  return order;
}

}  // namespace bov::experiments
