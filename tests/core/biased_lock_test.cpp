// SPDX-License-Identifier: MIT OR Apache-2.0
#include "base/biased_lock.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

namespace cachalot {
namespace {

using std::chrono::milliseconds;
using Guard = BiasedLock::Guard;

void run_threads(int count, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; i++) threads.emplace_back(body, i);
  for (std::thread& thread : threads) thread.join();
}

TEST(BiasedLockThreads, OneAtATimeIsInside) {
  BiasedLock lock(LockRank::kPinnedCache, Lock::Looks::kSeldom);
  int64_t count = 0;
  constexpr int kThreads = 8;
  constexpr int kRounds = 20000;
  run_threads(kThreads, [&](int) {
    for (int i = 0; i < kRounds; i++) {
      const Guard guard(lock);
      count++;
    }
  });
  EXPECT_EQ(count, int64_t{kThreads} * kRounds);
}

// The calling thread owns the lock afterwards, where the system and the processor allow it.
void make_owner(BiasedLock& lock) {
  for (uint64_t i = 0; i <= BiasedLock::kWorthABarrier; i++) const Guard guard(lock);
}

// The moment at which a lock is shared comes once in its life, so there are many locks. The count is no atomic one: two
// threads inside lose some of it.
TEST(BiasedLockThreads, TheOwnerIsNeverInsideBesideTheThreadThatSharesTheLock) {
  constexpr int kLocks = 300;
  constexpr int kRounds = 5000;
  for (int i = 0; i < kLocks; i++) {
    BiasedLock lock(LockRank::kPinnedCache);
    int64_t count = 0;
    std::atomic<bool> is_owned{false};
    std::thread owner([&] {
      make_owner(lock);
      for (int round = 0; round < kRounds; round++) {
        const Guard guard(lock);
        count++;
        is_owned.store(true, std::memory_order_relaxed);
      }
    });
    while (!is_owned) std::this_thread::yield();
    for (int round = 0; round < kRounds; round++) {
      const Guard guard(lock);
      count++;
    }
    owner.join();
    ASSERT_EQ(count, 2 * kRounds);
  }
}

// Visits far enough apart for the owner to stay the owner.
TEST(BiasedLockThreads, TheOwnerIsNeverInsideBesideAVisitor) {
  BiasedLock lock(LockRank::kPinnedCache);
  int64_t count = 0;
  int64_t owners = 0;
  std::atomic<int64_t> shown{0};
  std::atomic<bool> is_over{false};
  std::thread owner([&] {
    make_owner(lock);
    while (!is_over.load(std::memory_order_relaxed)) {
      {
        const Guard guard(lock);
        count++;
      }
      shown.store(++owners, std::memory_order_relaxed);
    }
  });
  constexpr int kVisits = 500;
  for (int visit = 0; visit < kVisits; visit++) {
    const int64_t next = shown + 2 * static_cast<int64_t>(BiasedLock::kWorthABarrier);
    while (shown < next) std::this_thread::yield();
    const Guard guard(lock);
    count++;
  }
  is_over = true;
  owner.join();
  EXPECT_EQ(count, owners + kVisits);
}

TEST(BiasedLockThreads, AThreadThatComesWaitsForTheOwner) {
  BiasedLock lock(LockRank::kPinnedCache);
  make_owner(lock);
  std::atomic<bool> has_entered{false};
  std::thread other;
  {
    const Guard guard(lock);
    other = std::thread([&] {
      const Guard guard_of_other(lock);
      has_entered = true;
    });
    std::this_thread::sleep_for(milliseconds(20));
    EXPECT_FALSE(has_entered);
  }
  other.join();
  EXPECT_TRUE(has_entered);
}

TEST(BiasedLockThreads, TheOwnerWaitsForAVisitor) {
  BiasedLock lock(LockRank::kPinnedCache);
  make_owner(lock);
  std::atomic<bool> is_inside{false};
  std::atomic<bool> has_left{false};
  std::thread other([&] {
    const Guard guard(lock);
    is_inside = true;
    std::this_thread::sleep_for(milliseconds(20));
    has_left = true;
  });
  while (!is_inside) std::this_thread::yield();
  {
    const Guard guard(lock);
    EXPECT_TRUE(has_left);
  }
  other.join();
}

TEST(BiasedLockThreads, ALockWhoseOwnerHasEndedServesOthers) {
  BiasedLock lock(LockRank::kPinnedCache);
  std::thread([&] { make_owner(lock); }).join();
  const Guard guard(lock);
}

}  // namespace
}  // namespace cachalot
