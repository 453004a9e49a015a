#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "experiments/train/progress.h"

namespace bov::experiments {

/// A run that is being trained.
struct RunProgress {
  std::string label;
  int64_t step = 0;
  int64_t steps = 0;
  std::optional<double> loss;  ///< nats a token; absent before the first log line
};

struct GridProgress {
  int64_t finished = 0;  ///< runs that ended, skipped ones included
  int64_t total = 0;
  std::optional<double> seconds_left;  ///< of the whole grid; absent before there is a speed
  std::vector<RunProgress> running;
};

/// Shows a grid's progress on standard error. `bar`: a block of lines rewritten in place, one a running row and one for the
/// grid. `lines`: the same as dated lines every half minute. `none`: nothing at all.
class GridConsole {
 public:
  explicit GridConsole(ProgressStyle style);
  ~GridConsole();
  GridConsole(const GridConsole&) = delete;
  GridConsole& operator=(const GridConsole&) = delete;

  /// A sentence that stays on the screen.
  void message(const std::string& text);
  /// May be called often.
  void update(const GridProgress& progress);

 private:
  void draw(const std::vector<std::string>& lines);
  void clear();

  ProgressStyle style_;
  Progress messages_;
  std::vector<std::string> drawn_;
  std::chrono::steady_clock::time_point next_lines_;
};

}  // namespace bov::experiments
