#pragma once

#include <cstdint>
#include <string>

namespace bov::experiments {

/// What a run shows while it trains, on standard error.
enum class ProgressStyle {
  none,
  lines,  ///< one dated line each log interval, for files and pipes
  bar,    ///< one line rewritten in place
};

/// `bar` if standard error is a terminal, else `lines`.
ProgressStyle progress_style_of_stderr();

/// Where a run is, after `step` of `total` steps.
struct ProgressState {
  int64_t step = 0;
  int64_t total = 0;
  double loss = 0;               ///< nats a token, of this step
  double tokens_per_second = 0;  ///< since the process started training
  double seconds_left = 0;
  bool log_interval = false;  ///< whether `lines` prints this one
};

class Progress {
 public:
  explicit Progress(ProgressStyle style);
  ~Progress();

  void step(const ProgressState& state);
  void evaluation(int64_t step, double bits_per_byte);
  /// A sentence for the reader, printed in every style but `none`.
  void message(const std::string& text);

 private:
  ProgressStyle style_;
  std::string bits_per_byte_;  ///< newest evaluation, shown behind the bar
  bool bar_on_screen_ = false;
};

/// "47s", "12m03s", "3h20m".
std::string format_duration(double seconds);

/// 1665.2 -> "1,665".
std::string format_count(double count);

}  // namespace bov::experiments
