#include "experiments/report/statistics.h"

#include <cmath>
#include <numbers>
#include <stdexcept>
#include <string>
#include <vector>

namespace bov::experiments {
namespace {

void check_degrees(int64_t degrees) {
  if (degrees < 1) {
    throw std::invalid_argument("Student's t: degrees of freedom must be at least 1, got " +
                                std::to_string(degrees));
  }
}

// P(|T| <= t) for t >= 0.
double central_probability(double t, int64_t degrees) {
  const double theta = std::atan(t / std::sqrt(static_cast<double>(degrees)));
  const double cosine_squared = std::cos(theta) * std::cos(theta);
  const bool odd = degrees % 2 == 1;
  // Even: sinθ·(1 + 1/2·cos²θ + (1·3)/(2·4)·cos⁴θ + ...), degrees/2 terms.
  // Odd: 2/π·(θ + sinθ·(cosθ + 2/3·cos³θ + (2·4)/(3·5)·cos⁵θ + ...)), (degrees-1)/2 terms.
  double term = odd ? std::cos(theta) : 1.0;
  double sum = 0.0;
  for (int64_t k = 1; k <= degrees / 2; ++k) {
    sum += term;
    const double numerator = static_cast<double>(odd ? 2 * k : 2 * k - 1);
    term *= cosine_squared * numerator / (numerator + 1.0);
  }
  const double series = std::sin(theta) * sum;
  return odd ? 2.0 / std::numbers::pi * (theta + series) : series;
}

}  // namespace

double student_t_cdf(double t, int64_t degrees) {
  check_degrees(degrees);
  const double half = 0.5 * central_probability(std::abs(t), degrees);
  return t < 0.0 ? 0.5 - half : 0.5 + half;
}

double student_t_quantile(double p, int64_t degrees) {
  check_degrees(degrees);
  if (!(p > 0.0 && p < 1.0)) {
    throw std::invalid_argument("Student's t: probability must lie between 0 and 1, got " +
                                std::to_string(p));
  }
  if (p < 0.5) return -student_t_quantile(1.0 - p, degrees);
  double low = 0.0;
  double high = 1.0;
  while (student_t_cdf(high, degrees) < p) {
    low = high;
    high *= 2.0;
  }
  // Bisection until the two ends are neighbouring doubles.
  for (double middle = 0.5 * (low + high); low < middle && middle < high; middle = 0.5 * (low + high)) {
    (student_t_cdf(middle, degrees) < p ? low : high) = middle;
  }
  return high;
}

Estimate estimate_mean(std::span<const double> samples) {
  Estimate estimate{.count = static_cast<int64_t>(samples.size()), .mean = 0.0, .half_width = std::nullopt};
  if (samples.empty()) return estimate;
  const double n = static_cast<double>(samples.size());
  for (const double sample : samples) estimate.mean += sample / n;
  if (samples.size() < 2) return estimate;
  double squares = 0.0;
  for (const double sample : samples) squares += (sample - estimate.mean) * (sample - estimate.mean);
  const double standard_error = std::sqrt(squares / (n - 1.0) / n);
  estimate.half_width = student_t_quantile(0.975, estimate.count - 1) * standard_error;
  return estimate;
}

Estimate estimate_paired_difference(const std::map<int64_t, double>& values,
                                    const std::map<int64_t, double>& references) {
  std::vector<double> differences;
  for (const auto& [seed, value] : values) {
    if (const auto reference = references.find(seed); reference != references.end()) {
      differences.push_back(value - reference->second);
    }
  }
  return estimate_mean(differences);
}

}  // namespace bov::experiments
