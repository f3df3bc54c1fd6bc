// SPDX-License-Identifier: MIT OR Apache-2.0
// The lock of a shard, or of a device: one word, taken with one exchange, given back with a plain store.
//
// Note [Plain unlock]
// Rationale: an unlock by exchange costs as much as the lock, and the hit path is a pair of both.
// Approach: unlock stores 0 and then looks whether somebody sleeps. The look may be ordered before
// the store, so a waiter that is about to sleep forces a barrier on all other threads first
// (membarrier): an unlock either is visible to its last try, or sees its count and wakes it.
// Limitations: where membarrier is refused, a sleep ends by itself sooner. The lock is not fair, so that
// a thread which is running goes on; a sleeper that has waited for kPatience is let through by those
// that unlock (Note [Starved threads]).
//
// Note [Back-off]
// Rationale: threads that use one stream take its shard's lock with each call. Each time the lock moves
// to another core, so do the lines of the blocks that follow, which takes longer than the calls: two
// threads together made a quarter of what one of them makes alone.
// Approach: a waiter looks a few times at once, since a call is short, and then seldom. So the holder
// makes some hundred calls from its own cache before the lock moves. While threads sleep there are more
// of them than cores, and looks are rarer still.
//
// Note [One sleeper at a time]
// Rationale: with more threads than cores there are always sleepers. An unlock that wakes one each time
// spends its time in the system, and the threads that it wakes are in each other's way.
// Approach: an unlock wakes a sleeper only while no other one is awake, and while nobody looks seldom
// for the lock. Such a thread takes the lock, and its own unlock wakes the next one; or it gives up,
// and tries once more before it sleeps. It says that it gives up by an exchange, before that last
// try. So where an unlock has relied on it, the try finds the lock free.
// Limitations: threads that look often are not counted, because the count would share the line that
// all of them read. A wake-up finds nobody while the only sleeper is on its way into its sleep, and
// another unlock at this moment relies on that wake-up; so each sleep ends by itself. In a child that
// was forked while others waited all sleeps may end that way.
//
// Note [Crowds]
// Rationale: a server may have thousands of threads in calls at once. Where each of them looks for the
// lock for a while, or its sleep ends by itself each millisecond, they leave no core to the thread that
// holds the lock: a thousand threads with 20 calls each did not end within ten minutes on two cores.
// Approach: beside kCrowd sleepers a waiter looks a few times only. The time of a sleep grows with the
// number of sleepers, so that all of them together wake up as often as one of them alone would.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/lock_rank.h"
#include "base/starved_threads.h"

namespace cachalot {

class Lock : public RankedLock {
 public:
  // How those that wait look whether the lock is free.
  enum class Looks : uint8_t {
    kOften,   // it is held for longer than a look takes, or what it guards is a line or two
    kSeldom,  // Note [Back-off]
  };

  explicit Lock(LockRank rank, Looks looks = Looks::kOften) : RankedLock(rank), looks_(looks) {}

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

  // More threads sleep than are likely to have a core each.
  static constexpr uint32_t kCrowd = 16;

  bool is_crowded() const { return sleepers_.load(std::memory_order_relaxed) >= kCrowd; }
  bool take() { return word_.exchange(kHeld, std::memory_order_acquire) == kFree; }
  void lock_contended();
  void sleep_until_taken(int64_t longest_sleep_ns);
  bool sleep_and_spin(int64_t longest_ns);
  bool spin();
  bool look_often(int looks);
  bool look_seldom();
  bool look_after(int pauses);
  void wake();

  std::atomic<uint32_t> word_{kFree};
  std::atomic<uint32_t> sleepers_{0};
  std::atomic<uint32_t> seldom_looking_{0};  // threads
  std::atomic<bool> is_sleeper_awake_{false};
  const Looks looks_;
  StarvedThreads starved_;
};

}  // namespace cachalot
