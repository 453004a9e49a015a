#include "experiments/report/number_text.h"

#include <array>
#include <cstdio>

namespace bov::experiments {
namespace {

// Published values have three digits; a fourth keeps differences of neighbouring rows apart.
constexpr int kBitsPerByteDigits = 4;
constexpr int kCoefficientDigits = 3;

std::string with_half_width(std::string mean, const Estimate& estimate) {
  if (estimate.count == 0) return "";
  if (!estimate.half_width) return mean;
  return mean + " ± " + fixed_text(*estimate.half_width, kBitsPerByteDigits);
}

template <typename... Arguments>
std::string formatted(const char* format, Arguments... arguments) {
  std::array<char, 400> buffer;  // longer than the longest double with few digits
  std::snprintf(buffer.data(), buffer.size(), format, arguments...);
  return buffer.data();
}

}  // namespace

std::string fixed_text(double value, int digits) {
  return formatted("%.*f", digits, value);
}

std::string signed_text(double value, int digits) {
  return formatted("%+.*f", digits, value);
}

std::string mebibytes_text(int64_t bytes, int digits) {
  return fixed_text(static_cast<double>(bytes) / (1 << 20), digits);
}

std::string scientific_text(double value) {
  return formatted("%.2e", value);
}

std::string estimate_text(const Estimate& estimate) {
  return with_half_width(fixed_text(estimate.mean, kBitsPerByteDigits), estimate);
}

std::string signed_estimate_text(const Estimate& estimate) {
  return with_half_width(signed_text(estimate.mean, kBitsPerByteDigits), estimate);
}

std::string coefficient_symbol(const std::string& name) {
  static const std::map<std::string, std::string> symbols{
      {"alpha", "α"}, {"beta", "β"}, {"gamma", "γ"}, {"gate_mean", "mean g"}, {"gate_std", "sd g"}};
  const size_t head = name.find_first_of("0123456789");
  const size_t end = head == std::string::npos ? name.size() : head - 1;
  const auto symbol = symbols.find(name.substr(0, end));
  return symbol == symbols.end() ? name : symbol->second + name.substr(end);
}

std::string coefficients_text(const LayerCoefficients& coefficients) {
  std::string text;
  for (const auto& [name, layers] : coefficients) {
    text.append(text.empty() ? "" : ", ").append(coefficient_symbol(name));
    for (const auto& [layer, value] : layers) text.append(" ").append(fixed_text(value, kCoefficientDigits));
  }
  return text;
}

}  // namespace bov::experiments
