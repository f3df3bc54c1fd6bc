// SPDX-License-Identifier: MIT OR Apache-2.0
// Each fault in the use of locks ends the process with a line that names the locks.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "base/lock.h"
#include "base/mutex.h"

namespace cachalot {
namespace {

class LockOrder : public testing::Test {
 protected:
  Lock device_{LockRank::kDevice};
  Lock shard_{LockRank::kShard};
  Lock other_shard_{LockRank::kShard};
  Mutex labels_{LockRank::kLabels};
};

using LockOrderDeathTest = LockOrder;

void run_on_a_thread(const std::function<void()>& body) { std::thread(body).join(); }

TEST_F(LockOrder, LetsAThreadTakeLocksInTheOrderOfTheirRanks) {
  const std::lock_guard device(device_);
  const std::lock_guard shard(shard_);
  const std::lock_guard labels(labels_);
  EXPECT_TRUE(device_.is_held() && shard_.is_held() && labels_.is_held());
  EXPECT_FALSE(other_shard_.is_held());
}

TEST_F(LockOrder, LetsAThreadTakeALockAgainThatItGaveBack) {
  device_.lock();
  shard_.lock();
  device_.unlock();  // in any order
  shard_.unlock();
  const std::lock_guard again(device_);
  EXPECT_FALSE(shard_.is_held());
}

TEST_F(LockOrder, HoldsWithinEachThread) {
  const std::lock_guard shard(shard_);
  run_on_a_thread([&] {
    const std::lock_guard device(device_);
    EXPECT_FALSE(shard_.is_held());
  });
}

TEST_F(LockOrder, LetsTryLockComeInAnyOrder) {
  const std::lock_guard shard(shard_);
  ASSERT_TRUE(device_.try_lock());
  EXPECT_TRUE(device_.is_held());
  device_.unlock();
  EXPECT_FALSE(shard_.try_lock());
}

TEST_F(LockOrder, PaysNoHeedToALockThatOthersPassOver) {
  const std::lock_guard shard(shard_);
  shard_.set_passed_over(true);
  const std::lock_guard other(other_shard_);
  const std::lock_guard labels(labels_);
  shard_.set_passed_over(false);
}

// A driver of the caller's may itself use an allocator.
TEST_F(LockOrder, HoldsWithinEachCall) {
  const std::lock_guard labels(labels_);
  const LockScope call;
  const std::lock_guard device(device_);
  const std::lock_guard shard(shard_);
}

TEST_F(LockOrderDeathTest, NamesBothLocksThatAreTakenInTheWrongOrder) {
  const std::lock_guard shard(shard_);
  EXPECT_DEATH(device_.lock(), "lock order: \"device\" is taken while \"shard\" is held");
}

TEST_F(LockOrderDeathTest, KnowsMutexesLikeLocks) {
  const std::lock_guard labels(labels_);
  EXPECT_DEATH(shard_.lock(), "lock order: \"shard\" is taken while \"labels\" is held");
}

TEST_F(LockOrderDeathTest, RefusesTwoLocksOfOneRank) {
  const std::lock_guard shard(shard_);
  EXPECT_DEATH(other_shard_.lock(), "lock order: \"shard\" is taken while \"shard\" is held");
}

TEST_F(LockOrderDeathTest, CountsWhatTryLockHasTaken) {
  ASSERT_TRUE(shard_.try_lock());
  EXPECT_DEATH(device_.lock(), "lock order: \"device\" is taken while \"shard\" is held");
  shard_.unlock();
}

TEST_F(LockOrderDeathTest, PaysHeedAgainToALockThatOthersWaitFor) {
  const std::lock_guard shard(shard_);
  shard_.set_passed_over(true);
  shard_.set_passed_over(false);
  EXPECT_DEATH(other_shard_.lock(), "lock order");
}

TEST_F(LockOrderDeathTest, RefusesALockThatTheThreadHasAlready) {
  const std::lock_guard device(device_);
  EXPECT_DEATH(device_.lock(), "lock \"device\" is taken by its holder");
}

TEST_F(LockOrderDeathTest, RefusesALockThatTheThreadHasTakenInAnOuterCall) {
  const std::lock_guard device(device_);
  const LockScope call;
  EXPECT_DEATH(device_.lock(), "lock \"device\" is taken by its holder");
}

TEST_F(LockOrderDeathTest, MissesALockThatHasToBeHeld) {
  EXPECT_DEATH(shard_.assert_held(), "lock_order_test.cpp:.*lock \"shard\" is not held");
  run_on_a_thread([&] { shard_.lock(); });
  EXPECT_DEATH(shard_.assert_held(), "lock \"shard\" is not held") << "but by another thread";
  EXPECT_DEATH(shard_.set_passed_over(true), "lock \"shard\" is not held");
}

TEST_F(LockOrderDeathTest, RefusesToGiveBackWhatTheThreadHasNot) {
  EXPECT_DEATH(shard_.unlock(), "lock \"shard\" is not held");
  EXPECT_DEATH(labels_.unlock(), "lock \"labels\" is not held");
}

TEST_F(LockOrderDeathTest, RefusesACallThatKeepsALock) {
  EXPECT_DEATH(
      {
        const LockScope call;
        shard_.lock();
      },
      "assertion failed");
}

TEST_F(LockOrderDeathTest, RefusesToDestroyALockThatTheThreadHolds) {
  EXPECT_DEATH(
      {
        auto lock = std::make_unique<Lock>(LockRank::kShard);
        lock->lock();
        lock.reset();
      },
      "assertion failed: !is_held");
}

}  // namespace
}  // namespace cachalot
