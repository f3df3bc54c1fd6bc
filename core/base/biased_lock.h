// SPDX-License-Identifier: MIT OR Apache-2.0
// A lock that costs the thread which takes it nearly always no atomic exchange.
//
// Note [Biased locking]
// Rationale: an exchange takes longer than most of what a hit does, and many programs call from one thread. A second
// thread often only looks, such as one that scrapes statistics.
// Approach: a thread that has taken the lock kWorthABarrier times in a row owns it. The owner says by a plain store that
// it is inside, and then looks whether the bias is still kOwned. Another thread visits: it takes the ordinary lock, says
// kVisited, forces a barrier on all other threads (membarrier), and waits until the owner is not inside. Of the owner's
// store and the visitor's, one is seen by the other thread then. When the visitor leaves, the bias is the owner's again.
// Where the owner was inside fewer than kWorthABarrier times since the last visit, barriers cost more than exchanges:
// the lock is shared for good, and all threads take the ordinary lock.
// Limitations: a lock has one owner in its life, because a former one that is about to enter could still write the
// owner's word. Where membarrier is refused, and on processors without a known thread pointer, nobody owns the lock.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/lock.h"
#include "base/lock_rank.h"
#include "base/thread_pointer.h"

namespace cachalot {

class BiasedLock : public RankedLock {
 public:
  explicit BiasedLock(LockRank rank, Lock::Looks looks = Lock::Looks::kOften)
      : RankedLock(rank), ordinary_(rank, looks) {}

  // A barrier takes some microseconds, and an exchange 5 to 10 ns.
  static constexpr uint64_t kWorthABarrier = 1000;

  // Holds the lock while it lives.
  class Guard {
   public:
    [[gnu::always_inline]] explicit Guard(BiasedLock& lock)
        : lock_(lock), is_owners_(lock.enter_as_owner()) {
      if (!is_owners_) lock_.lock_ordinary();
    }
    [[gnu::always_inline]] ~Guard() {
      if (is_owners_) {
        lock_.leave_as_owner();
      } else {
        lock_.unlock_ordinary();
      }
    }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    BiasedLock& lock_;
    const bool is_owners_;  // held without an exchange
  };

 private:
  enum class Bias : uint8_t {
    kNone,     // nobody owns the lock yet
    kOwned,    // the owner enters without the ordinary lock
    kVisited,  // likewise, but another thread is inside, or waits for the owner
    kShared,   // nobody ever owns the lock any more
  };

  [[gnu::always_inline]] bool enter_as_owner() {
    if (owner_.load(std::memory_order_relaxed) != thread_pointer()) return false;
    before_waiting();
    step();
    std::atomic_signal_fence(std::memory_order_seq_cst);  // what a visitor relies on
    if (bias_.load(std::memory_order_acquire) != Bias::kOwned) [[unlikely]] {
      step();
      return false;
    }
    taken();
    return true;
  }
  void leave_as_owner() {
    before_unlock();
    step();
  }
  // pre: the calling thread is the owner.
  void step() {
    owner_steps_.store(owner_steps_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }

  // Apart, so that the owner makes no room for what they need.
  [[gnu::noinline]] void lock_ordinary() {
    ordinary_.lock();
    if (bias_.load(std::memory_order_relaxed) != Bias::kShared) [[unlikely]]
      settle();
  }
  [[gnu::noinline]] void unlock_ordinary() {
    if (bias_.load(std::memory_order_relaxed) == Bias::kVisited) [[unlikely]]
      bias_.store(Bias::kOwned, std::memory_order_release);
    ordinary_.unlock();
  }
  // (here and below) pre: the calling thread holds ordinary_.
  // What a lock that is not shared needs before its holder goes on.
  void settle();
  // Whether the calling thread has now taken the lock often enough in a row.
  bool deserves_the_lock();
  void visit();

  std::atomic<uintptr_t> owner_{kNoThread};  // changes once
  // Odd while the owner is inside, or looks whether it may be.
  std::atomic<uint64_t> owner_steps_{0};
  std::atomic<Bias> bias_{Bias::kNone};
  Lock ordinary_;
  // Guarded by ordinary_.
  uintptr_t last_taker_ = kNoThread;
  uint64_t taken_in_a_row_ = 0;
  uint64_t steps_at_last_visit_ = 0;
};

}  // namespace cachalot
