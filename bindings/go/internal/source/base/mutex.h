// SPDX-License-Identifier: MIT OR Apache-2.0
// A mutex of the standard library with a rank, for what is not locked on a hit.
#pragma once

#include <mutex>

#include "base/lock_rank.h"

namespace cachalot {

class Mutex : public RankedLock {
 public:
  explicit Mutex(LockRank rank) : RankedLock(rank) {}

  void lock() {
    before_waiting();
    mutex_.lock();
    taken();
  }
  void unlock() {
    before_unlock();
    mutex_.unlock();
  }

 private:
  std::mutex mutex_;
};

}  // namespace cachalot
