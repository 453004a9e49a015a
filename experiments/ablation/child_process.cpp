#include "experiments/ablation/child_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <stdexcept>
#include <system_error>

namespace bov::experiments {
namespace {

[[noreturn]] void fail(const std::string& what, int error) {
  throw std::runtime_error(what + ": " + std::generic_category().message(error));
}

// Closes a file descriptor at the end of the block.
class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() { reset(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return value_; }
  void reset() {
    if (value_ >= 0) close(value_);
    value_ = -1;
  }

 private:
  int value_;
};

// This process's environment with `changes` on top, as "NAME=value".
std::vector<std::string> merged_environment(const std::map<std::string, std::string>& changes) {
  std::vector<std::string> merged;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (!changes.contains(text.substr(0, text.find('=')))) merged.push_back(text);
  }
  for (const auto& [name, value] : changes) merged.push_back(name + "=" + value);
  return merged;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> list;
  for (std::string& text : strings) list.push_back(text.data());
  list.push_back(nullptr);
  return list;
}

// Runs between fork and exec, where only async-signal-safe calls are allowed: no allocation, no exception.
[[noreturn]] void become(
    char* const* command, char* const* environment, int input, int log, int error_pipe, pid_t parent) {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  std::signal(SIGPIPE, SIG_DFL);  // an ignored signal would stay ignored in the program
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(1);  // the parent died before prctl could arrange for its death
  dup2(input, STDIN_FILENO);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  execve(command[0], command, environment);
  const int error = errno;
  if (write(error_pipe, &error, sizeof error) < 0) _exit(126);
  _exit(127);
}

}  // namespace

ChildProcess::ChildProcess(const ChildOptions& options) {
  std::vector<std::string> command = options.command;
  std::vector<std::string> environment = merged_environment(options.environment);
  const std::vector<char*> command_list = pointers(command);
  const std::vector<char*> environment_list = pointers(environment);
  const Descriptor input(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const Descriptor log(open(options.log.c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0644));
  if (log.get() < 0) fail(options.log.string() + ": cannot be opened for appending", errno);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail("pipe", errno);
  const Descriptor reader(ends[0]);
  Descriptor writer(ends[1]);

  // posix_spawn cannot ask for a signal at the parent's death.
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ < 0) fail("fork", errno);
  if (pid_ == 0) {
    become(command_list.data(), environment_list.data(), input.get(), log.get(), writer.get(), parent);
  }
  writer.reset();
  // exec closes the pipe; a number in it says why there was none.
  int error = 0;
  if (read(reader.get(), &error, sizeof error) == sizeof error) {
    wait(0);
    fail(command[0] + ": cannot be started", error);
  }
}

ChildProcess::~ChildProcess() {
  if (exit_) return;
  send(SIGKILL);
  wait(0);
}

std::optional<ChildExit> ChildProcess::poll() {
  return wait(WNOHANG);
}

void ChildProcess::send(int signal) {
  if (!exit_) kill(pid_, signal);
}

std::optional<ChildExit> ChildProcess::wait(int flags) {
  if (exit_) return exit_;
  int status = 0;
  pid_t waited = 0;
  do {
    waited = waitpid(pid_, &status, flags);
  } while (waited < 0 && errno == EINTR);
  if (waited == pid_) {
    exit_ = WIFSIGNALED(status) ? ChildExit{.status = 0, .signal = WTERMSIG(status)}
                                : ChildExit{.status = WEXITSTATUS(status), .signal = 0};
  }
  return exit_;
}

}  // namespace bov::experiments
