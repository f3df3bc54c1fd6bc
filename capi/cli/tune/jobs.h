// SPDX-License-Identifier: MIT OR Apache-2.0
// Work on all cores, which its user can stop.
#pragma once

#include <atomic>
#include <functional>
#include <semaphore>
#include <string>
#include <vector>

namespace cachalot::cli {

// Set by the first Ctrl-C (SIGINT) while an object of this kind lives; the second one ends the program.
class Cancellation {
 public:
  Cancellation();
  Cancellation(const Cancellation&) = delete;
  Cancellation& operator=(const Cancellation&) = delete;
  ~Cancellation();

  static const std::atomic<bool>& flag();
  static bool is_set() { return flag().load(std::memory_order_relaxed); }
};

// Threads that take jobs in their order. A job that throws Cancelled, or has not begun when the user stops the work, is
// left out; any other failure ends the work and is thrown.
class Jobs {
 public:
  // threads: 0 for one a core.
  explicit Jobs(unsigned threads);

  // A bar on a terminal shows how many are done; label "": none. Several threads may call it: no more jobs than threads
  // are under way in all of their calls together.
  void run(const std::string& label, const std::vector<std::function<void()>>& jobs);

 private:
  const unsigned threads_;
  std::counting_semaphore<> free_threads_;
};

}  // namespace cachalot::cli
