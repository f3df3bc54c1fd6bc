// SPDX-License-Identifier: MIT OR Apache-2.0
#include "base/biased_lock.h"

#include <chrono>
#include <thread>

#include "base/thread_barrier.h"

namespace cachalot {
namespace {

constexpr std::chrono::milliseconds kTimeSlice{10};

}  // namespace

// The owner itself comes here after it has seen a visitor, who has left by now.
void BiasedLock::settle() {
  const uintptr_t self = thread_pointer();
  if (self == kNoThread) {
    bias_.store(Bias::kShared, std::memory_order_relaxed);
  } else if (bias_.load(std::memory_order_relaxed) != Bias::kNone) {
    if (owner_.load(std::memory_order_relaxed) != self) visit();
  } else if (deserves_the_lock()) {
    const bool has_barriers = barrier_on_all_threads();
    bias_.store(has_barriers ? Bias::kOwned : Bias::kShared, std::memory_order_relaxed);
    if (has_barriers) owner_.store(self, std::memory_order_relaxed);
  }
}

bool BiasedLock::deserves_the_lock() {
  const uintptr_t self = thread_pointer();
  if (last_taker_ != self) taken_in_a_row_ = 0;
  last_taker_ = self;
  return ++taken_in_a_row_ == kWorthABarrier;
}

// The system has not refused a barrier when the lock found its owner, and does so later only by a filter of calls that
// was installed since. Each thread's stores are seen within a time slice even then.
void BiasedLock::visit() {
  bias_.store(Bias::kVisited, std::memory_order_seq_cst);
  if (!barrier_on_all_threads()) std::this_thread::sleep_for(kTimeSlice);
  uint64_t steps = owner_steps_.load(std::memory_order_acquire);
  for (; steps % 2 != 0; steps = owner_steps_.load(std::memory_order_acquire))
    std::this_thread::yield();
  const uint64_t entries = (steps - steps_at_last_visit_) / 2;
  steps_at_last_visit_ = steps;
  if (entries < kWorthABarrier) bias_.store(Bias::kShared, std::memory_order_relaxed);
}

}  // namespace cachalot
