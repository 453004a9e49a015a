#pragma once

namespace bov::experiments {

/// While it lives, the first SIGINT or SIGTERM is remembered instead of ending the process; the next one ends it at
/// once. One may live at a time; when it dies both
/// signals have their default effect again.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  /// The signal that came, or 0.
  int received() const;
};

}  // namespace bov::experiments
