// SPDX-License-Identifier: MIT OR Apache-2.0
#include "base/biased_lock.h"

#include <sched.h>

#include "base/thread_barrier.h"

namespace cachalot {

void BiasedLock::own_or_share() {
  const bool is_free = owner_.load(std::memory_order_relaxed) == kNoThread;
  if (is_free && thread_pointer() != kNoThread && barrier_on_all_threads()) {
    owner_.store(thread_pointer(), std::memory_order_relaxed);
    return;
  }
  is_shared_.store(true, std::memory_order_seq_cst);
  if (is_free) return;
  // The process has registered when the lock found its owner, so the system does not refuse; a child that was forked
  // keeps the registration.
  barrier_on_all_threads();
  while (is_owner_inside_.load(std::memory_order_acquire)) sched_yield();
}

}  // namespace cachalot
