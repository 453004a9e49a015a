#include "bov/model/gpt_options.h"

#include <c10/util/Exception.h>

#include <cmath>

namespace bov {
namespace {

/// Channels of the embedding that the smear gate reads.
constexpr int64_t kSmearChannels = 24;
/// Channels of the layer's input that a gated coefficient reads.
constexpr int64_t kGateChannels = 12;
/// The kernels' key blocks: an "S" window is a multiple of it.
constexpr int64_t kWindowMultiple = 128;

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

/// Far above any model, so that no count of parameters or FLOPs overflows.
constexpr int64_t kLargestWidth = int64_t{1} << 20;
constexpr int64_t kMostLayers = int64_t{1} << 12;
constexpr int64_t kLongest = int64_t{1} << 30;

void check_size(const char* field, int64_t value, int64_t highest) {
  TORCH_CHECK(value >= 1, "GPTOptions: ", field, " is ", value, "; expected 1 or more");
  TORCH_CHECK(value <= highest, "GPTOptions: ", field, " is ", value, "; expected at most ", highest);
}

void check_dtype(const char* field, torch::Dtype dtype) {
  TORCH_CHECK(dtype == torch::kFloat32 || dtype == torch::kBFloat16 || dtype == torch::kFloat64,
              "GPTOptions: ", field, " is ", dtype, "; expected float32, bfloat16 or float64");
}

void check_window_pattern(const std::string& pattern) {
  TORCH_CHECK(!pattern.empty() && pattern.find_first_not_of("SL") == std::string::npos,
              "GPTOptions: window_pattern is \"", pattern, "\"; expected one or more of the letters S and L");
}

}  // namespace

std::vector<int64_t> GPTOptions::window_left() const {
  check_window_pattern(window_pattern);
  const int64_t short_left = ceil_div(ceil_div(sequence_length, 4), kWindowMultiple) * kWindowMultiple;
  std::vector<int64_t> left(n_layer, sequence_length);
  for (int64_t i = 0; i + 1 < n_layer; ++i) {
    if (window_pattern[i % window_pattern.size()] == 'S') {
      left[i] = short_left;
    }
  }
  return left;
}

void GPTOptions::validate() const {
  check_size("sequence_length", sequence_length, kLongest);
  check_size("vocab_size", vocab_size, kLongest);
  check_size("n_layer", n_layer, kMostLayers);
  check_size("n_head", n_head, kLargestWidth);
  check_size("n_kv_head", n_kv_head, kLargestWidth);
  check_size("n_embd", n_embd, kLargestWidth);
  TORCH_CHECK(n_embd % n_head == 0, "GPTOptions: n_embd is ", n_embd,
              "; expected a multiple of n_head = ", n_head);
  TORCH_CHECK(n_head % n_kv_head == 0, "GPTOptions: n_kv_head is ", n_kv_head,
              "; expected a divisor of n_head = ", n_head);
  TORCH_CHECK(head_dim() % 2 == 0, "GPTOptions: n_embd / n_head is ", head_dim(),
              "; expected an even head width, because rotary embeddings turn pairs of channels");
  check_window_pattern(window_pattern);
  TORCH_CHECK(std::isfinite(rotary_base) && rotary_base > 0, "GPTOptions: rotary_base is ", rotary_base,
              "; expected a positive number");
  TORCH_CHECK(std::isfinite(qk_scale) && qk_scale > 0, "GPTOptions: qk_scale is ", qk_scale,
              "; expected a positive number");
  TORCH_CHECK(std::isfinite(logit_softcap) && logit_softcap >= 0, "GPTOptions: logit_softcap is ",
              logit_softcap, "; expected a positive number, or 0 for no softcap");
  TORCH_CHECK(!smear || n_embd >= kSmearChannels, "GPTOptions: n_embd is ", n_embd, "; expected at least ",
              kSmearChannels, " with smear, whose gate reads that many channels");
  TORCH_CHECK(value.coefficient.kind != ValueCoefficient::Kind::gated || n_embd >= kGateChannels,
              "GPTOptions: n_embd is ", n_embd, "; expected at least ", kGateChannels,
              " with coefficient: gated, whose gate reads that many channels");
  check_dtype("parameter_dtype", parameter_dtype);
  check_dtype("table_dtype", table_dtype);
  check_dtype("compute_dtype", compute_dtype);
  value.validate();
  target_layers(value, n_layer);
}

}  // namespace bov
