#include "experiments/train/stop_signal.h"

#include <csignal>

namespace bov::experiments {
namespace {

// A signal handler can reach nothing but a global.
volatile std::sig_atomic_t g_signal = 0;

void remember(int signal) {
  g_signal = signal;
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

}  // namespace

StopSignal::StopSignal() {
  g_signal = 0;
  std::signal(SIGINT, remember);
  std::signal(SIGTERM, remember);
}

StopSignal::~StopSignal() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

int StopSignal::received() const {
  return g_signal;
}

}  // namespace bov::experiments
