// SPDX-License-Identifier: MIT OR Apache-2.0
// A lock that costs its first thread no atomic exchange until another thread comes.
//
// Note [Biased locking]
// Rationale: an exchange takes longer than most of what a hit does, and many programs call from one thread.
// Approach: the first thread that takes the lock owns it from then on. The owner only says that it is inside, with a
// plain store, and looks whether the lock has been shared. Another thread shares the lock for good: it says so, forces
// a barrier on all other threads (membarrier), and waits until the owner is not inside. Of the owner's store and look,
// and the other thread's, one sees the other then. From there on all threads, the owner too, take an ordinary lock.
// Limitations: where membarrier is refused, and on processors without a known thread pointer, nobody owns the lock.
// A lock that two threads have used stays shared, also when one of them ends.
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
      : RankedLock(rank), shared_lock_(rank, looks) {}

  // Holds the lock while it lives.
  class Guard {
   public:
    [[gnu::always_inline]] explicit Guard(BiasedLock& lock)
        : lock_(lock), is_owners_(lock.enter_as_owner()) {
      if (!is_owners_) lock_.lock_shared();
    }
    [[gnu::always_inline]] ~Guard() {
      if (is_owners_) {
        lock_.leave();
      } else {
        lock_.unlock_shared();
      }
    }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    BiasedLock& lock_;
    const bool is_owners_;  // held without an exchange
  };

 private:
  // Whether the calling thread owns the lock and is inside now.
  [[gnu::always_inline]] bool enter_as_owner() {
    if (owner_.load(std::memory_order_relaxed) != thread_pointer()) return false;
    before_waiting();
    is_owner_inside_.store(true, std::memory_order_relaxed);
    std::atomic_signal_fence(
        std::memory_order_seq_cst);  // what a thread that shares the lock relies on
    if (is_shared_.load(std::memory_order_relaxed)) [[unlikely]] {
      is_owner_inside_.store(false, std::memory_order_release);
      return false;
    }
    std::atomic_signal_fence(std::memory_order_seq_cst);
    taken();
    return true;
  }
  void leave() {
    before_unlock();
    is_owner_inside_.store(false, std::memory_order_release);
  }
  // Apart, so that the owner makes no room for what they need.
  [[gnu::noinline]] void lock_shared() {
    shared_lock_.lock();
    if (!is_shared_.load(std::memory_order_relaxed)) [[unlikely]]
      own_or_share();
  }
  [[gnu::noinline]] void unlock_shared() { shared_lock_.unlock(); }
  // pre: shared_lock_. The lock becomes the calling thread's where it is nobody's; else all threads' from here on.
  void own_or_share();

  std::atomic<uintptr_t> owner_{kNoThread};  // changes once
  std::atomic<bool> is_owner_inside_{
      false};  // written by the owner; not while it holds shared_lock_
  std::atomic<bool> is_shared_{false};
  Lock shared_lock_;
};

}  // namespace cachalot
