#pragma once

#include <cstdint>
#include <string>

#include "experiments/report/grid_result.h"

/// Numbers as the tables spell them.
namespace bov::experiments {

std::string fixed_text(double value, int digits);           ///< "0.8542"
std::string signed_text(double value, int digits);          ///< "+0.0123" or "-0.0123"
std::string scientific_text(double value);                  ///< "1.50e+18"
std::string mebibytes_text(int64_t bytes, int digits = 1);  ///< "12.5"

/// "0.8542 ± 0.0021", the mean alone below two samples, empty without any.
std::string estimate_text(const Estimate& estimate);
std::string signed_estimate_text(const Estimate& estimate);  ///< "-0.0123 ± 0.0021"

std::string coefficient_symbol(
    const std::string& name);  ///< "γ" of "gamma", "γ_3" of "gamma_3"; an unknown name itself

/// "γ 2.560 3.140 3.960 12.450": each coefficient's values by ascending layer.
std::string coefficients_text(const LayerCoefficients& coefficients);

}  // namespace bov::experiments
