// SPDX-License-Identifier: MIT OR Apache-2.0
#include "base/lock.h"

#include <chrono>

#include "base/futex.h"
#include "base/pause.h"
#include "base/thread_barrier.h"

namespace cachalot {
namespace {

// In pauses of the processor, of which 4096 take some 100 microseconds. A hit holds a lock for less than
// 0.1: with longer pauses the lock of many that each need it once lies free in between.
constexpr int kBetweenLooks = 4;
constexpr int kOftenLooks = 1024;  // then a thread sleeps
constexpr int kFirstLooks = 4;
constexpr int kBetweenSeldomLooks = 512;
constexpr int kBetweenLooksBesideSleepers = 4096;
constexpr int kMostSeldom = 8192;  // then a thread sleeps

// For each thread that sleeps.
constexpr int64_t kLongestSleepNs = 1'000'000;
constexpr int64_t kLongestSleepWithoutBarrierNs = 200'000;
// Longer than the turns of many threads take, so that a lock that is only busy stays unfair.
constexpr std::chrono::milliseconds kPatience{2};

}  // namespace

bool Lock::look_after(int pauses) {
  pause_briefly(pauses);
  return word_.load(std::memory_order_relaxed) == kFree && take();
}

bool Lock::look_often(int looks) {
  for (int i = 0; i < looks; i++) {
    if (look_after(kBetweenLooks)) return true;
  }
  return false;
}

bool Lock::look_seldom() {
  for (int paused = 0; paused < kMostSeldom;) {
    const bool has_sleepers = sleepers_.load(std::memory_order_relaxed) != 0;
    const int pauses = has_sleepers ? kBetweenLooksBesideSleepers : kBetweenSeldomLooks;
    if (look_after(pauses)) return true;
    paused += pauses;
  }
  return false;
}

// False: the lock was free at no look.
bool Lock::spin() {
  if (look_often(kFirstLooks)) return true;
  if (is_crowded()) return false;
  if (looks_ == Looks::kOften) return look_often(kOftenLooks);
  seldom_looking_.fetch_add(1, std::memory_order_relaxed);
  const bool is_taken = look_seldom();
  seldom_looking_.fetch_sub(1, std::memory_order_acq_rel);
  return is_taken;
}

void Lock::lock_contended() {
  if (spin()) return;
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  sleep_until_taken(barrier_on_all_threads() ? kLongestSleepNs : kLongestSleepWithoutBarrierNs);
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
}

void Lock::sleep_until_taken(int64_t longest_sleep_ns) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  bool is_starved = false;
  while (!take()) {
    if (sleep_and_spin(longest_sleep_ns * sleepers_.load(std::memory_order_relaxed))) break;
    if (is_starved || Clock::now() - begin < kPatience) continue;
    is_starved = true;
    starved_.add();
  }
  if (is_starved) starved_.remove();
}

// False: the lock was free at no look, or nobody woke the thread.
bool Lock::sleep_and_spin(int64_t longest_ns) {
  if (!futex_wait(word_, kHeld, longest_ns)) return false;
  const bool is_taken = spin();
  is_sleeper_awake_.exchange(false, std::memory_order_acq_rel);
  return is_taken;
}

void Lock::wake() {
  const bool nobody_looks = seldom_looking_.fetch_add(0, std::memory_order_acq_rel) == 0;
  if (nobody_looks && !is_sleeper_awake_.exchange(true, std::memory_order_acq_rel) &&
      !futex_wake_one(word_)) {
    is_sleeper_awake_.store(false, std::memory_order_release);
  }
  starved_.let_one_go_first();
}

}  // namespace cachalot
