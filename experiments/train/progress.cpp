#include "experiments/train/progress.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace bov::experiments {
namespace {

constexpr int kBarWidth = 24;

spdlog::logger& stderr_logger() {
  static const auto logger = [] {
    auto made = spdlog::stderr_logger_mt("bov");
    made->set_pattern("%Y-%m-%d %H:%M:%S %v");
    return made;
  }();
  return *logger;
}

std::string describe(const ProgressState& state) {
  return fmt::format("step {}/{}  loss {:.4f}  {} tokens/s  {} left", state.step, state.total, state.loss,
                     format_count(state.tokens_per_second), format_duration(state.seconds_left));
}

}  // namespace

ProgressStyle progress_style_of_stderr() {
  return isatty(STDERR_FILENO) ? ProgressStyle::bar : ProgressStyle::lines;
}

Progress::Progress(ProgressStyle style) : style_(style) {}

Progress::~Progress() {
  if (bar_on_screen_) std::fputs("\n", stderr);
}

void Progress::step(const ProgressState& state) {
  if (style_ == ProgressStyle::lines && state.log_interval) stderr_logger().info(describe(state));
  if (style_ != ProgressStyle::bar) return;
  const auto filled = static_cast<size_t>(kBarWidth * state.step / std::max<int64_t>(state.total, 1));
  const std::string bar = std::string(filled, '#') + std::string(kBarWidth - filled, '.');
  // "\033[K" clears what a longer line left behind.
  fmt::print(stderr, "\r[{}] {}{}\033[K", bar, describe(state), bits_per_byte_);
  std::fflush(stderr);
  bar_on_screen_ = true;
}

void Progress::evaluation(int64_t step, double bits_per_byte) {
  bits_per_byte_ = fmt::format("  {:.4f} bits/byte at {}", bits_per_byte, step);
  if (style_ == ProgressStyle::lines) {
    stderr_logger().info("step {}  validation {:.4f} bits per byte", step, bits_per_byte);
  }
}

void Progress::message(const std::string& text) {
  if (style_ == ProgressStyle::lines) stderr_logger().info(text);
  if (style_ != ProgressStyle::bar) return;
  fmt::print(stderr, "{}{}\n", bar_on_screen_ ? "\n" : "", text);
  bar_on_screen_ = false;
}

std::string format_duration(double seconds) {
  const auto total = static_cast<int64_t>(std::max(0.0, seconds) + 0.5);
  if (total < 60) return fmt::format("{}s", total);
  if (total < 3600) return fmt::format("{}m{:02}s", total / 60, total % 60);
  return fmt::format("{}h{:02}m", total / 3600, total / 60 % 60);
}

std::string format_count(double count) {
  std::string digits = fmt::format("{:.0f}", count);
  for (auto place = static_cast<std::ptrdiff_t>(digits.size()) - 3; place > 0; place -= 3) {
    digits.insert(static_cast<size_t>(place), ",");
  }
  return digits;
}

}  // namespace bov::experiments
