// SPDX-License-Identifier: MIT OR Apache-2.0
#include "base/lock.h"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/pause.h"

namespace cachalot {
namespace {

// Some 100 microseconds. Looks close to each other, since a hit holds a lock for less than 0.1: with
// longer pauses the lock of many lies free in between.
constexpr int kLooks = 1024;
constexpr int kPausesPerLook = 4;  // between two looks
constexpr long kFallbackSleepNs = 200'000;

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
  const timespec limit{0, kFallbackSleepNs};
  const timespec* timeout = barrier_on_all_threads() ? nullptr : &limit;
  while (!take()) {
    syscall(SYS_futex, &word_, FUTEX_WAIT_PRIVATE, kHeld, timeout, nullptr, 0);
    if (spin()) break;
  }
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
}

void Lock::wake() { syscall(SYS_futex, &word_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0); }

}  // namespace cachalot
