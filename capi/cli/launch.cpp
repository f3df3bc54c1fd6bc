// SPDX-License-Identifier: MIT OR Apache-2.0
#include "launch.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "failure.h"
#include "options_check.h"

namespace cachalot::cli {
namespace {

volatile sig_atomic_t child_process = 0;

void pass_on(int signal) {
  const int code = errno;
  if (child_process > 0) kill(child_process, signal);
  errno = code;
}

// A terminal sends these to the program too.
constexpr std::array kOfTheTerminal{SIGINT, SIGQUIT};
constexpr std::array kPassedOn{SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};

// How this process takes signals while a program runs, and as before afterwards.
class Signals {
 public:
  Signals() {
    set(SIGCHLD, SIG_DFL);  // ignored, it would take the exit code away
    for (const int signal : kOfTheTerminal) set(signal, SIG_IGN);
    for (const int signal : kPassedOn)
      if (!is_ignored(signal)) set(signal, pass_on);
  }
  ~Signals() {
    child_process = 0;
    for (const auto& [signal, action] : before_) sigaction(signal, &action, nullptr);
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

 private:
  static bool is_ignored(int signal) {
    struct sigaction action {};
    return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
  }
  void set(int signal, void (*handler)(int)) {
    struct sigaction action {};
    action.sa_handler = handler;
    sigaction(signal, &action, &before_[signal]);
  }

  std::map<int, struct sigaction> before_;
};

// Why it does not run comes back by `failures`, which is closed if it does.
[[noreturn]] void become(const std::vector<std::string>& command,
                         const std::map<std::string, std::string>& environment, int failures) {
  for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments.front(), arguments.data());
  const int error = errno;
  [[maybe_unused]] const ssize_t written = write(failures, &error, sizeof error);
  _exit(kCannotExecute);
}

int read_error(int failures) {
  int error = 0;
  ssize_t count = 0;
  do count = read(failures, &error, sizeof error);
  while (count < 0 && errno == EINTR);
  return count == static_cast<ssize_t>(sizeof error) ? error : 0;
}

int wait_for(pid_t process) {
  int status = 0;
  while (waitpid(process, &status, 0) < 0)
    if (errno != EINTR) return kLauncherFailed;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

Launched launch(const std::vector<std::string>& command,
                const std::map<std::string, std::string>& environment,
                const std::function<void()>& started) {
  std::array<int, 2> failures{};
  if (pipe2(failures.data(), O_CLOEXEC) != 0) throw Failure("no pipe can be made");
  const pid_t process = fork();
  if (process < 0) throw Failure("no process can be made");
  if (process == 0) become(command, environment, failures[1]);
  child_process = process;
  const Signals signals;
  close(failures[1]);
  Launched launched;
  launched.error = read_error(failures[0]);
  close(failures[0]);
  if (launched.error == 0) started();
  launched.exit_code = wait_for(process);
  if (launched.error == 0) return launched;
  launched.exit_code = launched.error == ENOENT ? kNotFound : kCannotExecute;
  tell_user(command.front() + " cannot be started: " + std::strerror(launched.error));
  return launched;
}

bool is_disabled() {
  const char* const value = std::getenv("CACHALOT_DISABLE");
  return value != nullptr && std::strcmp(value, "1") == 0;
}

int launch_as_it_is(const std::vector<std::string>& command) {
  tell_user("CACHALOT_DISABLE=1: the program runs on the plain driver");
  return launch(command, {}, [] {}).exit_code;
}

std::vector<std::string> program_of(const std::vector<std::string>& behind_dashes,
                                    const CLI::App& command) {
  std::vector<std::string> program = behind_dashes.empty() ? command.remaining() : behind_dashes;
  if (program.empty())
    throw Failure("which program? cachalot " + command.get_name() + " [OPTIONS] -- PROGRAM");
  return program;
}

}  // namespace cachalot::cli
