// SPDX-License-Identifier: MIT OR Apache-2.0
// The lock of a shard, or of a device: one word, taken with one exchange, given back with a plain store.
//
// Note [Plain unlock]
// Rationale: an unlock by exchange costs as much as the lock, and the hit path is a pair of both.
// Approach: unlock stores 0 and then looks whether somebody sleeps. The look may be ordered before
// the store, so a waiter that is about to sleep forces a barrier on all other threads first
// (membarrier): an unlock either is visible to its last try, or sees its count and wakes it.
// Limitations: where membarrier is refused, a sleep ends by itself after kFallbackSleepNs. The lock is
// not fair, so that a thread which is running goes on; a sleeper that has waited for kPatience is let
// through by those that unlock (Note [Starved threads]).
#pragma once

#include <atomic>
#include <cstdint>

#include "base/lock_rank.h"
#include "base/starved_threads.h"

namespace cachalot {

class Lock : public RankedLock {
 public:
  explicit Lock(LockRank rank) : RankedLock(rank) {}

  void lock() {
    before_waiting();
    if (!take()) [[unlikely]]
      lock_contended();
    taken();
  }
  bool try_lock() {
    const bool is_taken = take();
    if (is_taken) taken();
    return is_taken;
  }
  void unlock() {
    before_unlock();
    word_.store(kFree, std::memory_order_release);
    if (sleepers_.load(std::memory_order_relaxed) != 0) [[unlikely]]
      wake();
  }

 private:
  static constexpr uint32_t kFree = 0;
  static constexpr uint32_t kHeld = 1;

  bool take() { return word_.exchange(kHeld, std::memory_order_acquire) == kFree; }
  void lock_contended();
  void sleep_until_taken(int64_t timeout_ns);
  bool spin();
  void wake();

  std::atomic<uint32_t> word_{kFree};
  std::atomic<uint32_t> sleepers_{0};
  StarvedThreads starved_;
};

}  // namespace cachalot
