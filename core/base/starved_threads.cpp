// SPDX-License-Identifier: MIT OR Apache-2.0
#include "base/starved_threads.h"

#include "base/futex.h"

namespace cachalot {

void StarvedThreads::remove() {
  count_.fetch_sub(1, std::memory_order_relaxed);
  turns_.fetch_add(1, std::memory_order_release);
  futex_wake_all(turns_);
}

void StarvedThreads::wait_for_turn() {
  const uint32_t turns = turns_.load(std::memory_order_acquire);
  if (count_.load(std::memory_order_relaxed) != 0) futex_wait(turns_, turns, kLongestWaitNs);
}

}  // namespace cachalot
