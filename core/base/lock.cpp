// SPDX-License-Identifier: MIT OR Apache-2.0
#include "base/lock.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>

#include "base/futex.h"
#include "base/pause.h"

namespace cachalot {
namespace {

// Some 100 microseconds. Looks close to each other, since a hit holds a lock for less than 0.1: with
// longer pauses the lock of many lies free in between.
constexpr int kLooks = 1024;
constexpr int kPausesPerLook = 4;  // between two looks
constexpr int64_t kFallbackSleepNs = 200'000;
// Longer than the turns of many threads take, so that a lock that is only busy stays unfair.
constexpr std::chrono::milliseconds kPatience{2};

bool membarrier(int command) { return syscall(SYS_membarrier, command, 0, 0) == 0; }

// A full barrier on every running thread of the process; false where the system refuses it. It does
// so until the process has registered, which is asked of it and not remembered: a static that a
// thread is filling while another one forks would never be filled in the child.
bool barrier_on_all_threads() {
  return membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) ||
         (membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) &&
          membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED));
}

}  // namespace

bool Lock::spin() {
  for (int i = 0; i < kLooks; i++) {
    pause_briefly(kPausesPerLook);
    if (word_.load(std::memory_order_relaxed) == kFree && take()) return true;
  }
  return false;
}

void Lock::lock_contended() {
  if (spin()) return;
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  sleep_until_taken(barrier_on_all_threads() ? kNoTimeout : kFallbackSleepNs);
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
}

void Lock::sleep_until_taken(int64_t timeout_ns) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  bool is_starved = false;
  while (!take()) {
    futex_wait(word_, kHeld, timeout_ns);
    if (spin()) break;
    if (is_starved || Clock::now() - begin < kPatience) continue;
    is_starved = true;
    starved_.add();
  }
  if (is_starved) starved_.remove();
}

void Lock::wake() {
  futex_wake_one(word_);
  starved_.let_one_go_first();
}

}  // namespace cachalot
