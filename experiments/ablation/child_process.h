#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace bov::experiments {

/// How a child ended: its exit status, or the signal that killed it.
struct ChildExit {
  int status = 0;  ///< exit status; meaningless if `signal` is not 0
  int signal = 0;

  bool succeeded() const { return signal == 0 && status == 0; }
};

struct ChildOptions {
  std::vector<std::string> command;                ///< path of the program and its arguments
  std::map<std::string, std::string> environment;  ///< variables set on top of this process's own
  std::filesystem::path log;                       ///< output and errors are appended here
};

/// A child process that never outlives its parent: it gets SIGTERM when the thread that started it ends,
/// however that happens, and SIGKILL when the object dies first. It has a process group of its own, so that
/// Ctrl-C on a terminal reaches it through the parent alone, and reads nothing from the terminal.
class ChildProcess {
 public:
  /// Starts the program. Throws std::runtime_error naming the program or the log and the system's reason.
  explicit ChildProcess(const ChildOptions& options);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  /// How the child ended, or nothing while it runs.
  std::optional<ChildExit> poll();

  /// Sends `signal` if the child still runs.
  void send(int signal);

 private:
  std::optional<ChildExit> wait(int flags);

  pid_t pid_ = -1;
  std::optional<ChildExit> exit_;
};

}  // namespace bov::experiments
