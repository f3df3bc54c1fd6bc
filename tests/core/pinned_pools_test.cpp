// SPDX-License-Identifier: MIT OR Apache-2.0
// Pools of pinned memory, for captures into graphs [pinned 6.1 to 6.5].
#include <gtest/gtest.h>

#include "pinned_fixture.h"

namespace cachalot {
namespace {

constexpr Stream kCaptured = 0x50;
constexpr Stream kOther = 0x60;
constexpr PoolId kPool{1, 0};
constexpr PoolId kSecondPool{2, 0};

class PinnedPoolTest : public PinnedTest {
 protected:
  Address allocate_on(Stream current, uint64_t size) {
    return allocator->allocate(size, 0, current);
  }
  void begin(PoolId id = kPool, Stream taken = kCaptured) {
    allocator->pool_begin(id, [taken](Stream stream) { return stream == taken; });
  }
  void begin_capture() { driver.machine().begin_capture(0, kCaptured, 7); }
  void end_capture() { driver.machine().end_capture(0, 7); }
  void leave(PoolId id = kPool) {
    allocator->pool_end(id);
    allocator->pool_release(id);
  }
  std::string text_of(const std::function<void()>& call, Status expected) {
    const Error error = error_of(call);
    EXPECT_EQ(error.status(), expected) << error.message();
    return error.message();
  }
};

TEST_F(PinnedPoolTest, ServesWhatItsFilterTakesFromItsOwnClasses) {
  open();
  const Address usual = allocate(4096);
  allocator->free(usual);
  begin_capture();
  begin();
  const Address of_pool = allocate_on(kCaptured, 4096);
  EXPECT_NE(of_pool, usual);
  EXPECT_EQ(allocate_on(kOther, 4096), usual);
  allocator->free(usual);
  allocator->free(of_pool);
  EXPECT_EQ(allocate_on(kOther, 4096), usual);
  EXPECT_NE(allocate_on(kOther, 4096), of_pool);
  EXPECT_EQ(allocate_on(kCaptured, 4096), of_pool);
  EXPECT_TRUE(kept.warnings().empty());
}

TEST_F(PinnedPoolTest, GetsItsBlocksBackAlsoOnceItHasEnded) {
  open();
  begin_capture();
  begin();
  const Address block = allocate_on(kCaptured, 4096);
  allocator->pool_end(kPool);
  end_capture();
  allocator->free(block);
  EXPECT_NE(allocate_on(kCaptured, 4096), block);
  allocator->empty_cache();  // it has a user
  begin_capture();
  begin();
  EXPECT_EQ(allocate_on(kCaptured, 4096), block);
}

TEST_F(PinnedPoolTest, LosesABlockThatAStreamUsesAndACaptureGot) {
  open();
  begin_capture();
  begin();
  const Address used = allocate_on(kCaptured, 4096);
  allocator->record_stream(used, 0, kCaptured);
  allocator->free(used);
  EXPECT_EQ(status_of([&] { allocator->free(used); }), Status::kInvalidArgument);
  EXPECT_EQ(status_of([&] { allocator->record_stream(used, 0, kOther); }), Status::kInvalidState);
  EXPECT_NE(allocate_on(kCaptured, 4096), used);
  end_capture();
  leave();
  allocator->empty_cache();
  EXPECT_EQ(active(), 2);
  calls();
  EXPECT_EQ(worked("event"), 0u);
  EXPECT_EQ(worked("host_free"), 0u);
  EXPECT_EQ(allocator->live_blocks(), 1u);
  allocator->free_all();
  EXPECT_EQ(allocator->live_blocks(), 0u);
  EXPECT_EQ(active(), 1);
}

TEST_F(PinnedPoolTest, LosesABlockOfNoPoolTooIfItWasGotDuringTheCapture) {
  open();
  begin_capture();
  begin(kPool, kOther);
  const Address block = allocate_on(kCaptured, 4096);
  allocator->pool_end(kPool);
  end_capture();
  allocator->record_stream(block, 0, kOther);
  allocator->free(block);
  EXPECT_NE(allocate(4096), block);
  EXPECT_EQ(active(), 2);
}

TEST_F(PinnedPoolTest, KeepsABlockThatWasGotBeforeTheCapture) {
  open();
  const Address block = allocate(4096);
  begin_capture();
  begin();
  allocator->record_stream(block, 0, kOther);
  allocator->free(block);
  EXPECT_EQ(allocate_on(kOther, 4096), block);
}

TEST_F(PinnedPoolTest, WaitsForStreamsOutsideOfACapture) {
  open();
  begin();
  const Address block = allocate_on(kCaptured, 4096);
  ASSERT_EQ(kept.warnings().size(), 1u);
  EXPECT_EQ(
      kept.warnings()[0].find(
          "CachingHostAllocator is allocating to private pool (1,0) but the current stream is "
          "not capturing."),
      0u);
  driver.machine().queue_work(0, kOther);
  allocator->record_stream(block, 0, kOther);
  allocator->free(block);
  EXPECT_NE(allocate_on(kCaptured, 4096), block);
  finish(kOther);
  EXPECT_NE(allocate_on(kOther, 4096), block);  // looks at its own waiting blocks alone
  EXPECT_EQ(active(), 3);
  EXPECT_EQ(allocate_on(kCaptured, 4096), block);
  EXPECT_EQ(kept.warnings().size(), 1u);  // once
}

TEST_F(PinnedPoolTest, ThatBeganFirstServes) {
  open();
  begin_capture();
  begin(kSecondPool);
  begin(kPool);
  const Address block = allocate_on(kCaptured, 4096);
  allocator->free(block);
  allocator->pool_end(kSecondPool);
  EXPECT_NE(allocate_on(kCaptured, 4096), block);
  begin(kSecondPool);  // last now
  EXPECT_NE(allocate_on(kCaptured, 4096), block);
  allocator->pool_end(kPool);
  EXPECT_EQ(allocate_on(kCaptured, 4096), block);
}

TEST_F(PinnedPoolTest, WithoutUsersGivesItsBlocksBackWithAnEmptiedCacheAndEnds) {
  open();
  begin_capture();
  begin();
  const Address cached = allocate_on(kCaptured, 4096);
  const Address live = allocate_on(kCaptured, 8192);
  allocator->free(cached);
  end_capture();
  leave();
  allocator->empty_cache();
  EXPECT_EQ(obtained(), 1);
  EXPECT_EQ(text_of([&] { begin(); }, Status::kInvalidState),
            "the pool of pinned memory was released and cannot be joined");
  allocator->free(live);
  EXPECT_EQ(obtained(), 1);
  allocator->empty_cache();
  EXPECT_EQ(obtained(), 0);
  begin_capture();
  begin();  // a new one
  allocate_on(kCaptured, 4096);
  EXPECT_EQ(allocator->check(), "");
}

TEST_F(PinnedPoolTest, WithoutUsersCompletesItsFreesWithAnEmptiedCache) {
  open();
  begin();
  const Address block = allocate_on(kCaptured, 4096);
  driver.machine().queue_work(0, kOther);
  allocator->record_stream(block, 0, kOther);
  allocator->free(block);
  leave();
  allocator->empty_cache();
  EXPECT_EQ(obtained(), 1);
  finish(kOther);
  allocator->empty_cache();
  EXPECT_EQ(obtained(), 0);
}

TEST_F(PinnedPoolTest, KeepsItsBlockWhereTheDriverDoesNotTakeItBack) {
  open();
  begin_capture();
  begin();
  allocator->free(allocate_on(kCaptured, 4096));
  end_capture();
  leave();
  fail(SimCall::kHostFree);
  EXPECT_THROW(allocator->empty_cache(), Error);
  EXPECT_EQ(obtained(), 1);
  EXPECT_EQ(allocator->check(), "");
  allocator->empty_cache();
  EXPECT_EQ(obtained(), 0);
  begin();
}

TEST_F(PinnedPoolTest, IsBegunEndedAndReleasedInPairs) {
  open();
  begin();
  EXPECT_EQ(text_of([&] { begin(); }, Status::kInvalidState),
            "beginAllocateToPool: already recording to mempool_id");
  allocator->pool_end(kPool);
  EXPECT_EQ(text_of([&] { allocator->pool_end(kPool); }, Status::kInvalidState),
            "endAllocatePool: not currently recording to mempool_id");
  allocator->pool_release(kPool);
  allocator->pool_release(kPool);  // the begin that failed counts as a user
  EXPECT_EQ(text_of([&] { allocator->pool_release(kPool); }, Status::kInvalidState),
            "the pool of pinned memory was released more often than it was used");
  EXPECT_EQ(text_of([&] { allocator->pool_release(kSecondPool); }, Status::kInvalidArgument),
            "there is no pool of pinned memory with this id");
  EXPECT_EQ(text_of([&] { allocator->pool_end(kSecondPool); }, Status::kInvalidState),
            "endAllocatePool: not currently recording to mempool_id");
}

TEST_F(PinnedPoolTest, ThatHasGoneServesNoRequestOfItsRoute) {
  open();
  begin();
  allocator->pool_release(kPool);
  allocator->empty_cache();
  EXPECT_EQ(text_of([&] { allocate_on(kCaptured, 16); }, Status::kInvalidState),
            "the pool of pinned memory that requests are routed to has gone");
  EXPECT_EQ(active(), 0);
  allocate_on(kOther, 16);
  allocator->pool_end(kPool);
  allocate_on(kCaptured, 16);
  EXPECT_EQ(active(), 2);
}

TEST_F(PinnedPoolTest, WithoutUsersServesUntilItEnds) {
  open();
  begin();
  allocator->pool_release(kPool);
  const Address block = allocate_on(kCaptured, 16);
  allocator->empty_cache();  // it has a block
  allocator->free(block);
  EXPECT_EQ(allocate_on(kCaptured, 16), block);
}

TEST_F(PinnedPoolTest, LeavesItsFiguresBehind) {
  for (const Release release : {Release::k2_11, Release::k2_15}) {
    open({}, release);
    allocate(4096);
    begin_capture();
    begin();
    const Address block = allocate_on(kCaptured, 4096);
    allocator->free(block);
    end_capture();
    leave();
    const PinnedStats before = allocator->stats();
    EXPECT_EQ(before.active_requests.peak, 2);
    EXPECT_EQ(before.active_requests.current, release == Release::k2_15 ? 1 : 2);
    allocator->empty_cache();
    const PinnedStats after = allocator->stats();
    EXPECT_EQ(after.active_requests.current, before.active_requests.current);
    EXPECT_EQ(after.active_requests.peak, before.active_requests.peak);
    EXPECT_EQ(after.active_bytes.allocated, 8192);
    EXPECT_EQ(allocator->live_blocks(), 1u);
    close();
  }
}

TEST_F(PinnedPoolTest, GoesBackWithTheAllocatorWhateverBecameOfIt) {
  open({.reserve_segment_size = MiB});
  begin_capture();
  begin();
  const Address lost = allocate_on(kCaptured, 2 * MiB);
  allocator->record_stream(lost, 0, kOther);
  allocator->free(lost);
  allocate_on(kCaptured, 4 * MiB);
  allocator->free(allocate_on(kCaptured, 8 * MiB));
  end_capture();
  allocate_on(kCaptured, 16);
  driver.machine().queue_work(0, kOther);
  const Address waiting = allocate_on(kCaptured, 16 * MiB);
  allocator->record_stream(waiting, 0, kOther);
  allocator->free(waiting);
  close();
  EXPECT_EQ(worked("host_free"), 5u);
}

}  // namespace
}  // namespace cachalot
