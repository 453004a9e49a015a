#include "bov/decode/sampler.h"

#include <ATen/CPUGeneratorImpl.h>

#include <cmath>
#include <limits>

namespace bov {

void SamplingOptions::validate() const {
  TORCH_CHECK(std::isfinite(temperature) && temperature >= 0, "SamplingOptions: temperature is ", temperature,
              "; expected 0 or a positive number");
  TORCH_CHECK(top_k >= 0, "SamplingOptions: top_k is ", top_k, "; expected 0 or a positive number");
  TORCH_CHECK(top_p > 0 && top_p <= 1, "SamplingOptions: top_p is ", top_p, "; expected a number in (0, 1]");
}

Sampler::Sampler(SamplingOptions options, uint64_t seed)
    : options_(options), generator_(at::detail::createCPUGenerator(seed)) {
  options_.validate();
}

int64_t Sampler::next(const torch::Tensor& logits) {
  TORCH_CHECK(logits.dim() == 1 && logits.numel() > 0, "Sampler: logits must be [V], got ", logits.sizes());
  const double largest = logits.max().item<double>();  // NaN if there is one
  TORCH_CHECK(std::isfinite(largest), "Sampler: the largest of ", logits.numel(), " logits is ", largest,
              "; expected a finite number");
  if (options_.temperature == 0) return logits.argmax().item<int64_t>();
  // Differences, so that no temperature makes them overflow at the likeliest token.
  torch::Tensor scores = (logits.to(torch::kCPU, torch::kFloat64) - largest) / options_.temperature;
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  if (options_.top_k > 0 && options_.top_k < scores.numel()) {
    const auto [best, ids] = scores.topk(options_.top_k);
    scores = torch::full_like(scores, kNever).scatter_(0, ids, best);
  }
  torch::Tensor probabilities = torch::softmax(scores, 0);
  if (options_.top_p < 1) {
    const auto [sorted, ids] = probabilities.sort(/*dim=*/0, /*descending=*/true);
    // A token stays if those before it do not reach top_p, so the likeliest always does.
    const torch::Tensor stays = (sorted.cumsum(0) - sorted) < options_.top_p;
    probabilities = torch::zeros_like(probabilities).scatter_(0, ids, sorted * stays);
  }
  return probabilities.multinomial(1, /*replacement=*/false, generator_).item<int64_t>();
}

}  // namespace bov
