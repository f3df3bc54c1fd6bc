// SPDX-License-Identifier: MIT OR Apache-2.0
// Threads that wait in vain, and those that let them go first.
//
// Note [Starved threads]
// Rationale: a thread that sleeps needs a while to run again. Another one that takes a lock again right
// after its unlock has it by then, each time, and the sleeper never gets it.
// Approach: a thread that was woken in vain adds itself here. A thread that is about to be in its way
// once more waits until one starved thread has had its turn.
// Invariants: nobody waits here for longer than kLongestWaitNs, so a starved thread may itself wait for
// what the other one holds.
#pragma once

#include <atomic>
#include <cstdint>

namespace cachalot {

class StarvedThreads {
 public:
  // The calling thread: from add() to remove().
  void add() { count_.fetch_add(1, std::memory_order_relaxed); }
  void remove();
  void let_one_go_first() {
    if (count_.load(std::memory_order_relaxed) != 0) [[unlikely]]
      wait_for_turn();
  }

 private:
  static constexpr int64_t kLongestWaitNs = 1'000'000;

  void wait_for_turn();

  std::atomic<uint32_t> count_{0};
  std::atomic<uint32_t> turns_{0};  // that threads have had
};

}  // namespace cachalot
