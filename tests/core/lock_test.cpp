// SPDX-License-Identifier: MIT OR Apache-2.0
#include "base/lock.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "slow_to_wake.h"

namespace cachalot {
namespace {

using std::chrono::milliseconds;

// With both kinds of looks.
class LockThreads : public testing::TestWithParam<Lock::Looks> {
 protected:
  Lock lock{LockRank::kShard, GetParam()};
};

INSTANTIATE_TEST_SUITE_P(Looks, LockThreads,
                         testing::Values(Lock::Looks::kOften, Lock::Looks::kSeldom));

void run_threads(int count, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; i++) threads.emplace_back(body, i);
  for (std::thread& thread : threads) thread.join();
}

TEST_P(LockThreads, OneAtATimeIsInside) {
  int64_t count = 0;
  std::atomic<int> inside{0};
  std::atomic<int> overlaps{0};
  constexpr int kThreads = 8;
  constexpr int kRounds = 20000;
  run_threads(kThreads, [&](int) {
    for (int i = 0; i < kRounds; i++) {
      std::lock_guard guard(lock);
      if (inside.fetch_add(1, std::memory_order_relaxed) != 0) overlaps++;
      count++;
      inside.fetch_sub(1, std::memory_order_relaxed);
    }
  });
  EXPECT_EQ(overlaps, 0);
  EXPECT_EQ(count, int64_t{kThreads} * kRounds);
}

TEST_P(LockThreads, TryingNeverWaitsAndNeverEntersAHeldLock) {
  ASSERT_TRUE(lock.try_lock());
  std::thread([&] { EXPECT_FALSE(lock.try_lock()); }).join();
  lock.unlock();
  EXPECT_TRUE(lock.try_lock());
  lock.unlock();
}

// The holder sleeps longer than anybody spins, so the others sleep too. All of them have to be
// woken.
TEST_P(LockThreads, SleepersAreWoken) {
  std::atomic<int> entered{0};
  for (int round = 0; round < 10; round++) {
    entered = 0;
    lock.lock();
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; i++) {
      threads.emplace_back([&] {
        std::lock_guard guard(lock);
        entered++;
      });
    }
    std::this_thread::sleep_for(milliseconds(5));
    EXPECT_EQ(entered, 0);
    lock.unlock();
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(entered, 8);
  }
}

// Some hold it long and some briefly, so that sleepers, spinners and newcomers meet.
TEST_P(LockThreads, NobodyIsLeftBehindWhereHoldersSleep) {
  int64_t count = 0;
  run_threads(8, [&](int thread) {
    for (int i = 0; i < 60; i++) {
      std::lock_guard guard(lock);
      count++;
      if ((i + thread) % 20 == 0) std::this_thread::sleep_for(milliseconds(1));
    }
  });
  EXPECT_EQ(count, 8 * 60);
}

// All are there before the first goes on. With sleeps of a millisecond each it took minutes.
TEST_P(LockThreads, AThousandOfThemGetItsLockInTurn) {
  constexpr int kThreads = 1000;
  constexpr int kRounds = 50;
  int64_t count = 0;
  std::unique_lock first(lock);
  std::atomic<int> arrived{0};
  std::thread rest([&] {
    run_threads(kThreads, [&](int) {
      arrived++;
      for (int i = 0; i < kRounds; i++) {
        const std::lock_guard guard(lock);
        count++;
      }
    });
  });
  while (arrived < kThreads) std::this_thread::sleep_for(milliseconds(1));
  first.unlock();
  rest.join();
  EXPECT_EQ(count, int64_t{kThreads} * kRounds);
}

TEST_P(LockThreads, AThreadThatIsSlowToWakeGetsItsTurn) {
  expect_turns_beside_holds(
      [&](const auto& held) {
        const std::lock_guard guard(lock);
        held();
      },
      [&] { const std::lock_guard guard(lock); });
}

}  // namespace
}  // namespace cachalot
