#include "experiments/ablation/grid_console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>

#include "experiments/report/number_text.h"
#include "experiments/report/text_table.h"

namespace bov::experiments {
namespace {

constexpr std::chrono::seconds kLinesInterval{30};
constexpr int kLossDigits = 4;

size_t terminal_columns() {
  winsize size{};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

std::string run_line(const RunProgress& run) {
  const std::string loss = run.loss ? "  loss " + fixed_text(*run.loss, kLossDigits) : "";
  return run.label + "  step " + format_count(static_cast<double>(run.step)) + "/" +
         format_count(static_cast<double>(run.steps)) + loss;
}

std::string grid_line(const GridProgress& progress) {
  const std::string left =
      progress.seconds_left ? "  " + format_duration(*progress.seconds_left) + " left" : "";
  return std::to_string(progress.finished) + " of " + std::to_string(progress.total) + " runs" + left;
}

}  // namespace

GridConsole::GridConsole(ProgressStyle style)
    : style_(style), messages_(style), next_lines_(std::chrono::steady_clock::now() + kLinesInterval) {}

GridConsole::~GridConsole() {
  clear();
}

void GridConsole::message(const std::string& text) {
  const std::vector<std::string> block = drawn_;
  clear();
  messages_.message(text);
  draw(block);
}

void GridConsole::update(const GridProgress& progress) {
  std::vector<std::string> lines;
  for (const RunProgress& run : progress.running) lines.push_back(run_line(run));
  lines.push_back(grid_line(progress));
  if (style_ == ProgressStyle::bar && lines != drawn_) {
    clear();
    draw(lines);
  }
  const auto now = std::chrono::steady_clock::now();
  if (style_ == ProgressStyle::lines && now >= next_lines_) {
    for (const std::string& line : lines) messages_.message(line);
    next_lines_ = now + kLinesInterval;
  }
}

void GridConsole::draw(const std::vector<std::string>& lines) {
  // A line that wraps would take two rows, and clear() would leave one behind.
  const size_t limit = terminal_columns() - 1;
  for (std::string line : lines) {
    while (display_width(line) > limit) line.pop_back();
    std::fprintf(stderr, "%s\n", line.c_str());
  }
  std::fflush(stderr);
  drawn_ = lines;
}

void GridConsole::clear() {
  // Up one line and erase it, for each line of the block.
  for (size_t i = 0; i < drawn_.size(); ++i) std::fputs("\033[A\033[2K", stderr);
  std::fflush(stderr);
  drawn_.clear();
}

}  // namespace bov::experiments
