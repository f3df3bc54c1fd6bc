// SPDX-License-Identifier: MIT OR Apache-2.0
// The process at the other end of a test: it does what it is told on its standard input, a line a time, and answers
// each with a line, which begins with "ok" where all is well.
#pragma once

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

namespace cachalot_test {

class OtherProcess {
 public:
  // Tells the test that something is not as it should be.
  using Report = void (*)(const std::string& what);

  // words: the program and its arguments. Its first line comes without a question.
  OtherProcess(const std::vector<std::string>& words, Report report) : report_(report) {
    // A socket, since a process that is gone must not end this one by a signal.
    int ends[2] = {-1, -1};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) report_("no socket");
    process_ = fork();
    if (process_ == 0) run(words, ends[1]);
    close(ends[1]);
    to_ = ends[0];
    from_ = fdopen(dup(ends[0]), "r");
    result_of("the start", answer());
  }
  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;
  ~OtherProcess() {
    shutdown(to_, SHUT_WR);
    wait();
    fclose(from_);
    close(to_);
  }

  // "gone": so is the process.
  std::string ask(const std::string& line) {
    const std::string text = line + "\n";
    const ssize_t sent = send(to_, text.data(), text.size(), MSG_NOSIGNAL);
    return sent == static_cast<ssize_t>(text.size()) ? answer() : "gone";
  }
  // What stands behind "ok ".
  std::string get(const std::string& line) { return result_of(line.substr(0, 40), ask(line)); }

  void kill() {
    ::kill(process_, SIGKILL);
    wait();
  }
  pid_t process() const { return process_; }

 private:
  [[noreturn]] static void run(const std::vector<std::string>& words, int end) {
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    dup2(end, STDIN_FILENO);
    dup2(end, STDOUT_FILENO);
    execv(arguments[0], arguments.data());
    _exit(127);
  }

  std::string result_of(const std::string& question, const std::string& text) {
    const bool is_ok = text == "ok" || text.substr(0, 3) == "ok ";
    if (!is_ok) report_(question + ": " + text);
    return text.size() > 3 ? text.substr(3) : "";
  }

  std::string answer() {
    std::string line;
    for (int c = fgetc(from_); c != EOF && c != '\n'; c = fgetc(from_))
      line += static_cast<char>(c);
    return line.empty() ? "gone" : line;
  }

  void wait() {
    int status = 0;
    if (process_ > 0) waitpid(process_, &status, 0);
    process_ = -1;
  }

  const Report report_;
  pid_t process_ = -1;
  int to_ = -1;
  FILE* from_ = nullptr;
};

}  // namespace cachalot_test
