#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>

/// The few statistics that a table over seeds needs.
namespace bov::experiments {

/// P(T <= t) of Student's t with `degrees` >= 1 degrees of freedom: the finite series of Abramowitz and
/// Stegun 26.7.3-4, exact for whole degrees. Throws std::invalid_argument for degrees < 1.
double student_t_cdf(double t, int64_t degrees);

/// The t with P(T <= t) = p, to the precision of a double. Throws std::invalid_argument unless 0 < p < 1 and
/// degrees >= 1.
double student_t_quantile(double p, int64_t degrees);

/// A mean over `count` samples and the half width of its two-sided 95 % confidence interval.
struct Estimate {
  int64_t count = 0;
  double mean = 0.0;                 ///< meaningless without samples
  std::optional<double> half_width;  ///< absent below two samples: one sample says nothing about its spread

  double lower() const {
    return mean - half_width.value();
  }  ///< throws std::bad_optional_access without half_width
  double upper() const { return mean + half_width.value(); }  ///< likewise
};

/// Mean of `samples` and Student's 95 % interval, t(0.975, n-1)·s/√n.
Estimate estimate_mean(std::span<const double> samples);

/// Mean of value[seed] - reference[seed] over the seeds that both have, and its 95 % interval. Pairing takes
/// the part of the noise that both runs of a seed share (data order, initial weights) out of the difference.
Estimate estimate_paired_difference(const std::map<int64_t, double>& values,
                                    const std::map<int64_t, double>& references);

}  // namespace bov::experiments
