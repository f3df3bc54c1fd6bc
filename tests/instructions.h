// SPDX-License-Identifier: MIT OR Apache-2.0
// How many instructions calls take: for claims about cost that no other load of the machine changes.
#pragma once

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <stdexcept>

namespace cachalot_test {

// `prepare` runs in a child process and gives the calls. These run there once to warm up, and once
// more step by step; no more than `at_most` steps are taken. Steps are slow (50 us in some
// containers), so the calls should be few.
inline uint64_t instructions_of(const std::function<std::function<void()>()>& prepare,
                                uint64_t at_most = 200000) {
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("no process can be made");
  if (child == 0) {
    const std::function<void()> calls = prepare();
    calls();
    ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    raise(SIGUSR1);
    calls();
    raise(SIGUSR1);
    _exit(0);
  }
  int state = 0;
  uint64_t steps = 0;
  const auto stops_by = [&](int signal) { return WIFSTOPPED(state) && WSTOPSIG(state) == signal; };
  waitpid(child, &state, 0);
  bool is_traced = stops_by(SIGUSR1);
  while (is_traced && steps < at_most) {
    if (ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr) != 0) break;
    waitpid(child, &state, 0);
    if (!stops_by(SIGTRAP)) break;
    steps++;
  }
  const bool is_complete = stops_by(SIGUSR1) || steps == at_most;
  kill(child, SIGKILL);
  if (is_traced) waitpid(child, &state, 0);
  if (!is_complete) throw std::runtime_error("the child was not traced to the end of its calls");
  return steps;
}

}  // namespace cachalot_test
