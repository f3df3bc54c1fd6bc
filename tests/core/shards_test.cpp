// SPDX-License-Identifier: MIT OR Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "alloc/pools/private_pool.h"
#include "alloc/shards/device_lock.h"
#include "heap_parts.h"

namespace cachalot {
namespace {

class ShardsOfADevice : public testing::Test {
 protected:
  Shard* shard_of(Stream stream) {
    const DeviceLock lock(shards_, stream);
    lock.entry().lists = 1;  // the stream has memory, so its entry stays
    return lock.entry().shard;
  }
  bool count(Shard& shard, const Counters::Move& move) {
    return shards_.with_headroom(shard, [&] {
      return shards_.count(shard, true, move) ? Shards::Step::kDone : Shards::Step::kRefused;
    });
  }
  Stat bytes() {
    const DeviceLock lock(shards_);
    Stats stats;
    shards_.read(&stats);
    return stats.allocated_bytes.all;
  }

  static Counters::Change change_of(int64_t bytes) { return {bytes, bytes, 0, bytes}; }

  HeapParts parts_;
  HitRules rules_;
  Shards shards_{nullptr, parts_.heap, rules_, parts_.flags};
};

// Which a shard gets by itself only where threads compete.
class ShardsWithOwnAccounts : public ShardsOfADevice {
 protected:
  ShardsWithOwnAccounts() { Peaks::shares_account = false; }
  ~ShardsWithOwnAccounts() override { Peaks::shares_account = true; }
};

TEST_F(ShardsOfADevice, AreSharedInTurnsByStreamsAfterTheLastOne) {
  std::set<Shard*> shards;
  Shard* const first = shard_of(1);
  Shard* const second = shard_of(2);
  for (Stream stream = 1; stream <= kMaxShards; stream++) shards.insert(shard_of(stream));
  EXPECT_EQ(shards.size(), kMaxShards);
  EXPECT_EQ(shard_of(1000), first);
  EXPECT_EQ(shard_of(1001), second);
  EXPECT_EQ(shard_of(1), first);
}

TEST_F(ShardsOfADevice, AreHeldAsLongAsTheWholeDeviceIsLocked) {
  {
    DeviceLock lock(shards_);
    EXPECT_TRUE(lock.is_whole());
    EXPECT_TRUE(parts_.flags.has(SlowPath::kHeld));
  }
  EXPECT_FALSE(parts_.flags.has(SlowPath::kHeld));
}

TEST_F(ShardsOfADevice, AreLockedByThemselvesUnlessAFlagAsksForTheDevice) {
  {
    DeviceLock lock(shards_, 1);
    EXPECT_FALSE(lock.is_whole());
    EXPECT_EQ(lock.shard(), lock.entry().shard);
    lock.lock_whole();
    EXPECT_TRUE(lock.is_whole());
    EXPECT_EQ(lock.shard(), nullptr);
  }
  parts_.flags.add(SlowPath::kTracing);
  EXPECT_TRUE(DeviceLock(shards_, 1).is_whole());
}

TEST_F(ShardsOfADevice, KeepTheEntryAndThePoolOfARequestThatUnlocks) {
  PrivatePool pool({1, 0});
  DeviceLock lock(shards_, 1);
  StreamEntry* const entry = &lock.entry();
  {
    const DeviceUnlock unlocked(lock, *entry, &pool);
    EXPECT_EQ(pool.requests_under_way, 1);
    EXPECT_NE(&DeviceLock(shards_, 2).entry(), entry) << "the device is not locked";
    parts_.flags.add(SlowPath::kTracing);
  }
  EXPECT_EQ(pool.requests_under_way, 0);
  EXPECT_TRUE(lock.is_whole()) << "a flag was set meanwhile";
}

TEST_F(ShardsOfADevice, AddTheirCountersUpAndHaveOnePeak) {
  Shard& first = *shard_of(1);
  Shard& second = *shard_of(2);
  EXPECT_TRUE(count(first, Counters::handing_out(change_of(1024))));
  EXPECT_TRUE(count(second, Counters::handing_out(change_of(512))));
  EXPECT_TRUE(count(first, Counters::freeing(change_of(1024))));
  EXPECT_EQ(bytes().current, 512);
  EXPECT_EQ(bytes().peak, 1536);
  EXPECT_EQ(shards_.check_limits(), "");
}

TEST_F(ShardsOfADevice, ShowTheSumOfOneMomentWhetherTheWholeDeviceIsLockedOrNot) {
  EXPECT_TRUE(count(*shard_of(1), Counters::handing_out(change_of(1024))));
  EXPECT_TRUE(count(*shard_of(2), Counters::handing_out(change_of(512))));
  Stats stats;
  {
    const std::lock_guard device(shards_.lock());
    shards_.read(&stats);
  }
  EXPECT_EQ(stats.allocated_bytes.all.current, 1536);
  EXPECT_EQ(bytes().current, 1536);
}

TEST_F(ShardsWithOwnAccounts, LetARecallPassOverAShardThatIsHeldForLong) {
  Shard& second = *shard_of(2);
  EXPECT_TRUE(count(*shard_of(1), Counters::handing_out(change_of(4096))));
  EXPECT_TRUE(count(*shard_of(1), Counters::freeing(change_of(4096))));
  { const DeviceLock whole(shards_); }  // lends headroom again
  EXPECT_TRUE(count(*shard_of(1), Counters::handing_out(change_of(512))));
  const DeviceLock lock(shards_, 1);
  const LongHold long_hold(shards_, lock.shard());
  const uint64_t recall = shards_.peaks().recall_number();
  std::thread([&] {
    EXPECT_TRUE(count(second, Counters::handing_out(change_of(8192))));
  }).join();  // it would never end if it waited for the first shard
  EXPECT_GT(shards_.peaks().recall_number(), recall) << "a new peak recalls headroom";
}

TEST_F(ShardsWithOwnAccounts, KeepTheHighestSumOfAllThreadsAsThePeak) {
  constexpr int kThreads = 4;
  std::mutex order;
  int64_t sum = 0;
  int64_t peak = 0;
  const auto move = [&](Shard& shard, int64_t size, bool is_free) {
    const std::lock_guard guard(order);
    const Counters::Change change = change_of(size);
    EXPECT_TRUE(count(shard, is_free ? Counters::freeing(change) : Counters::handing_out(change)));
    sum += is_free ? -size : size;
    peak = std::max(peak, sum);
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; i++) {
    threads.emplace_back([&, shard = shard_of(static_cast<Stream>(i))] {
      for (int64_t round = 0; round < 500; round++) {
        const int64_t size = 512 * (1 + round * 7 % 13);
        move(*shard, size, false);
        if (round % 3 != 0) move(*shard, size, true);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(bytes().current, sum);
  EXPECT_EQ(bytes().peak, peak);
}

}  // namespace
}  // namespace cachalot
