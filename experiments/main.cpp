#include <c10/util/Exception.h>
#include <poll.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>
#include <string_view>

#include "csrc/version.h"
#include "experiments/commands/commands.h"
#include "experiments/runtime.h"

namespace {

constexpr int kFailure = 1;
constexpr int kUsageError = 2;

int fail(std::string message) {
  std::replace(message.begin(), message.end(), '\n', ' ');
  std::cerr << "bov: " << message << '\n';
  return kFailure;
}

/// True if whoever read standard output has closed it, as `head` does: nothing is wrong then.
bool reader_is_gone() {
  pollfd out{STDOUT_FILENO, POLLOUT, 0};
  return poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
}

/// `status`, unless output was lost on the way.
int finish(int status) {
  std::cout.flush();
  if (!std::cout && !reader_is_gone()) {
    return fail("standard output cannot be written");
  }
  return status;
}

void add_commands(CLI::App& app) {
  using namespace bov::experiments;
  add_ablate_command(app);
  add_bench_command(app);
  add_check_golden_command(app);
  add_compare_command(app);
  add_convert_command(app);
  add_data_command(app);
  add_doctor_command(app);
  add_eval_command(app);
  add_generate_command(app);
  add_inspect_command(app);
  add_memory_command(app);
  add_tokenizer_command(app);
  add_train_command(app);
}

/// CLI11 takes the next argument for a value that is missing behind "--option=".
void refuse_missing_values(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--") return;  // what follows are no options
    if (argument.starts_with("--") && argument.find('=') == argument.size() - 1) {
      throw CLI::ValidationError(std::string(argument.substr(0, argument.size() - 1)),
                                 "no value behind the =");
    }
  }
}

int run(int argc, char** argv) {
  bov::experiments::keep_freed_memory();
  // A closed pipe must not end a training run; finish() tells it from a full disk.
  std::signal(SIGPIPE, SIG_IGN);
  CLI::App app("Bank of Values: train, compare and inspect sources of attention's value vectors", "bov");
  // One at most: the parser then names a misspelt command, instead of asking for one.
  app.require_subcommand(0, 1);
  app.set_version_flag("--version", std::string("bov ") + bov::ops::version());
  app.footer(
      "Example: bov ablate experiments/configs/quickstart.yaml\nEvery command has --help with an example.");
  add_commands(app);
  try {
    refuse_missing_values(argc, argv);
    app.parse(argc, argv);
    if (app.get_subcommands().empty()) {
      std::cerr << app.help();
      return kUsageError;
    }
    return finish(0);
  } catch (const CLI::RuntimeError& error) {
    return finish(error.get_exit_code());
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? finish(0) : kUsageError;
  } catch (const c10::Error& error) {
    return fail(error.what_without_backtrace());
  } catch (const std::exception& error) {
    return fail(error.what());
  }
}

/// Ends the process without the destructors of global objects: LibTorch takes longer to take its registries apart than a
/// short command to do its work.
[[noreturn]] void leave(int status) {
  std::cout.flush();
  std::fflush(nullptr);
  std::_Exit(status);
}

}  // namespace

int main(int argc, char** argv) {
  leave(run(argc, argv));
}
