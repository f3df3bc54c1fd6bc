// SPDX-License-Identifier: MIT OR Apache-2.0
// The allocator of pinned memory: requests, regions, frees and events. The rules are those of
// docs/behaviour/pinned-memory.md.
#include "alloc/pinned/pinned_allocator.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "pinned_fixture.h"

namespace cachalot {
namespace {

constexpr Stream kStream = 0x50;
constexpr Stream kOther = 0x60;

class PinnedMemoryTest : public PinnedTest {
 protected:
  PinnedMemoryTest() : PinnedTest(2) {}

  uint64_t size_for(uint64_t asked) {
    const Address block = allocate(asked);
    const uint64_t size = allocator->size_of(block);
    allocator->free(block);
    return size;
  }
};

// ---- Requests

TEST_F(PinnedMemoryTest, OfNoBytesIsNoBlock) {
  open();
  EXPECT_EQ(allocate(0), 0u);
  EXPECT_NO_THROW(allocator->free(0));
  EXPECT_EQ(allocator->live_blocks(), 0u);
  EXPECT_EQ(calls(), "");
}

TEST_F(PinnedMemoryTest, CanBeWrittenAndReadToItsLastByte) {
  open();
  const Address block = allocate(5000);
  auto* const bytes = reinterpret_cast<char*>(block);
  std::memset(bytes, 7, 8192);
  EXPECT_EQ(bytes[8191], 7);
  EXPECT_EQ(allocator->size_of(block), 8192u);
  allocator->free(block);
}

TEST_F(PinnedMemoryTest, HandsOutTheBlockOfAClassThatCameBackLast) {
  open();
  const Address first = allocate(4096);
  const Address second = allocate(4096);
  const Address third = allocate(4096);
  for (const Address block : {first, third, second}) allocator->free(block);
  EXPECT_EQ(allocate(2049), second);
  EXPECT_EQ(allocate(3000), third);
  EXPECT_EQ(allocate(4096), first);
  EXPECT_EQ(obtained(), 3);
}

TEST_F(PinnedMemoryTest, LooksAtNoOtherClass) {
  open();
  const Address large = allocate(8192);
  allocator->free(large);
  EXPECT_NE(allocate(4096), large);
  EXPECT_NE(allocate(8193), large);
  EXPECT_EQ(allocate(8192), large);
}

TEST_F(PinnedMemoryTest, PassesOverBlocksOfTheClassThatAreTooSmall) {
  open({.max_round_threshold = MiB});
  const Address large = allocate(4 * MiB - 512);
  const Address small = allocate(3 * MiB);
  allocator->free(large);
  allocator->free(small);
  EXPECT_EQ(allocate(3 * MiB + 1), large);
  EXPECT_EQ(allocate(3 * MiB + 1) == small, false);
  EXPECT_EQ(allocate(2 * MiB + 1), small);
  EXPECT_EQ(allocator->size_of(small), 3 * MiB);
}

TEST_F(PinnedMemoryTest, RoundsUpToTheThresholdAndNotAbove) {
  open({.max_round_threshold = 4096});
  EXPECT_EQ(size_for(1), 1u);
  EXPECT_EQ(size_for(3), 4u);
  EXPECT_EQ(size_for(4096), 4096u);
  EXPECT_EQ(size_for(4097), 4097u);
  allocator->set_settings({.max_cached_size = 1000});
  EXPECT_EQ(size_for(999), 1024u);
  EXPECT_EQ(size_for(1001), 1001u);
  allocator->set_settings({});
  EXPECT_EQ(size_for(5000), 8192u);
}

TEST_F(PinnedMemoryTest, AboveTheLargestClassIsRefused) {
  open();
  const uint64_t largest = uint64_t{1} << 63;
  EXPECT_EQ(status_of([&] { allocate(largest + 1); }), Status::kInvalidArgument);
  EXPECT_EQ(status_of([&] { allocate(UINT64_MAX); }), Status::kInvalidArgument);
  EXPECT_EQ(calls(), "");
  EXPECT_EQ(status_of([&] { allocate(largest); }), Status::kDriver);
  EXPECT_EQ(obtained(), 0);
}

TEST_F(PinnedMemoryTest, RemembersHowItWasObtained) {
  open();
  const Address allocated = allocate(4096);
  allocator->set_settings({.use_cuda_host_register = true, .num_register_threads = 4});
  const Address registered = allocate(4096);
  allocator->set_settings({});
  allocator->free(registered);
  allocator->free(allocated);
  EXPECT_EQ(calls(), "host_alloc 4096\nhost_register 4096\n");
  allocator->empty_cache();
  EXPECT_EQ(calls(), "host_unregister\nhost_free\n");
}

TEST_F(PinnedMemoryTest, LargerThanTheCacheKeepsGoesBackWhenItIsFreed) {
  open({.max_cached_size = 8192});
  allocator->free(allocate(8192));
  allocator->free(allocate(8193));
  EXPECT_EQ(calls(), "host_alloc 8192\nhost_alloc 8193\nhost_free\n");
  allocator->set_settings({.max_cached_size = 4096});
  EXPECT_EQ(obtained(), 1);  // what is cached stays
  allocator->free(allocate(8192));
  EXPECT_EQ(obtained(), 0);
  EXPECT_EQ(active(), 0);
}

TEST_F(PinnedMemoryTest, LargerThanTheCacheKeepsGoesBackWhenItsStreamIsDone) {
  open({.max_cached_size = 4096});
  waiting_block(8192, kStream);
  allocator->free(allocate(16));
  EXPECT_EQ(worked("host_free"), 0u);
  finish(kStream);
  allocator->free(allocate(16));
  calls();
  EXPECT_EQ(worked("host_free"), 1u);
  EXPECT_EQ(obtained(), 1);
}

TEST_F(PinnedMemoryTest, GoesBackClassByClassWhenTheCacheIsEmptied) {
  open({.max_round_threshold = 0});
  std::vector<Address> blocks;
  for (const uint64_t size : {9000, 100, 5000, 110}) blocks.push_back(allocate(size));
  for (const Address block : blocks) allocator->free(block);
  allocator->empty_cache();
  calls();
  EXPECT_EQ(worked("host_free"), 4u);
  EXPECT_EQ(obtained(), 0);
  EXPECT_EQ(pinned_bytes(), 0u);
  // Their addresses may come again.
  for (const uint64_t size : {9000, 100, 5000, 110}) allocator->free(allocate(size));
  EXPECT_EQ(allocator->check(), "");
}

// ---- The region

TEST_F(PinnedMemoryTest, ComesFromTheRegionWhileThatHoldsIt) {
  open({.reserve_segment_size = MiB});
  const Address first = allocate(100);
  const Address second = allocate(8192);
  const Address third = allocate(1);
  EXPECT_EQ(second, first + 4096);
  EXPECT_EQ(third, second + 8192);
  const Address own = allocate(2 * MiB);
  EXPECT_EQ(calls(), "host_alloc 1048576\nhost_alloc 2097152\n");
  const PinnedStats stats = allocator->stats();
  EXPECT_EQ(stats.allocations.current, 4);
  EXPECT_EQ(stats.allocated_bytes.current, static_cast<int64_t>(2 * MiB + 8192 + 128 + 1));
  EXPECT_EQ(stats.allocate_times.count, 2);
  for (const Address block : {first, second, third, own}) allocator->free(block);
}

TEST_F(PinnedMemoryTest, OfTheRegionIsDroppedByAnEmptiedCacheForGood) {
  open({.reserve_segment_size = MiB});
  const Address first = allocate(512 * KiB);
  allocator->free(first);
  allocator->empty_cache();
  EXPECT_EQ(calls(), "host_alloc 1048576\n");
  EXPECT_EQ(obtained(), 0);
  EXPECT_EQ(allocate(512 * KiB), first + 512 * KiB);
  allocate(4096);  // the region is used up
  EXPECT_EQ(calls(), "host_alloc 4096\n");
  EXPECT_EQ(status_of([&] { allocator->free(first); }), Status::kInvalidArgument);
}

TEST_F(PinnedMemoryTest, MayBeTheLastOfTheRegionOfAnySize) {
  open({.reserve_segment_size = MiB, .max_round_threshold = 0});
  allocate(MiB - 4096 - 1);
  const Address last = allocate(4096);
  EXPECT_EQ(calls(), "host_alloc 1048576\n");
  std::memset(reinterpret_cast<void*>(last), 1, 4096);
  allocate(1);
  EXPECT_EQ(calls(), "host_alloc 1\n");
}

TEST_F(PinnedMemoryTest, OfARegionThatCannotBeHadIsTriedForWithTheSizeOfThen) {
  open({.reserve_segment_size = MiB});
  fail(SimCall::kHostAllocate);
  EXPECT_EQ(error_of([&] { allocate(16); }).driver_code(), kFailure);
  EXPECT_EQ(obtained(), 0);
  allocator->set_settings({.reserve_segment_size = 2 * MiB});
  allocate(16);
  allocator->set_settings({.reserve_segment_size = 4 * MiB});
  allocate(2 * MiB);
  EXPECT_EQ(calls(), "host_alloc 1048576 error 999\nhost_alloc 2097152\nhost_alloc 2097152\n");
}

TEST_F(PinnedMemoryTest, KnowsNoRegionWhereTheFirstRequestKnewNone) {
  open();
  fail(SimCall::kHostAllocate);
  EXPECT_THROW(allocate(16), Error);
  allocator->set_settings({.reserve_segment_size = MiB});
  allocate(16);
  EXPECT_EQ(calls(), "host_alloc 16 error 999\nhost_alloc 16\n");
}

// ---- Streams

TEST_F(PinnedMemoryTest, WithoutStreamsIsCachedAtOnce) {
  open();
  const Address block = allocate(4096);
  allocator->free(block);
  EXPECT_EQ(active(), 0);
  EXPECT_EQ(allocate(4096), block);
  EXPECT_EQ(calls(), "host_alloc 4096\n");
}

TEST_F(PinnedMemoryTest, WaitsForItsStreamsAndIsTakenByTheNextRequest) {
  open();
  const Address block = waiting_block(4096, kStream);
  EXPECT_EQ(allocator->live_blocks(), 0u);
  EXPECT_EQ(active(), 1);
  EXPECT_NE(allocate(4096), block);
  finish(kStream);
  EXPECT_EQ(active(), 2);  // nobody has looked
  EXPECT_EQ(allocate(4096), block);
  EXPECT_EQ(active(), 2);
  EXPECT_EQ(obtained(), 2);
}

TEST_F(PinnedMemoryTest, KnowsAStreamOnce) {
  open();
  const Address block = allocate(4096);
  for (int i = 0; i < 3; i++) allocator->record_stream(block, 0, kStream);
  allocator->record_stream(block, 1, kStream);  // another device's
  allocator->free(block);
  calls();
  EXPECT_EQ(worked("event_create"), 2u);
  EXPECT_EQ(worked("event_record 50"), 2u);
  EXPECT_EQ(allocate(4096), block);
  allocator->free(block);
  EXPECT_EQ(calls(), "event_query 50\nevent_query 50\n");  // it has forgotten them
}

TEST_F(PinnedMemoryTest, WaitsForStreamsOfSeveralDevices) {
  open();
  const Address block = allocate(4096);
  for (const int device : {0, 1}) {
    driver.machine().queue_work(device, kStream);
    allocator->record_stream(block, device, kStream);
  }
  allocator->free(block);
  EXPECT_NE(allocate(4096), block);
  finish(kStream, 0);
  EXPECT_NE(allocate(4096), block);
  finish(kStream, 1);
  EXPECT_EQ(allocate(4096), block);
}

TEST_F(PinnedMemoryTest, WaitsBehindBlocksThatWereFreedBefore) {
  open();
  const Address first = waiting_block(4096, kStream);
  const Address second = waiting_block(8192, kOther);
  finish(kOther);
  EXPECT_NE(allocate(8192), second);
  finish(kStream);
  EXPECT_EQ(allocate(8192), second);
  EXPECT_EQ(allocate(4096), first);
}

TEST_F(PinnedMemoryTest, UsesEventsOfADeviceAgain) {
  open();
  for (int i = 0; i < 5; i++) {
    waiting_block(4096, kStream);
    waiting_block(4096, kOther, 1);
    finish(kStream);
    finish(kOther, 1);
    allocator->free(allocate(16));
  }
  calls();
  EXPECT_EQ(worked("event_create"), 2u);
  EXPECT_EQ(worked("event_record"), 10u);
}

TEST_F(PinnedMemoryTest, RefusesAStreamOfADeviceThatThereIsNot) {
  open();
  const Address block = allocate(16);
  for (const int device : {-1, 2})
    EXPECT_EQ(status_of([&] { allocator->record_stream(block, device, 0); }),
              Status::kInvalidArgument);
  allocator->free(block);
  EXPECT_EQ(allocate(16), block);
}

// ---- Misuse

TEST_F(PinnedMemoryTest, IsFreedOnce) {
  open();
  const Address block = allocate(4096);
  allocator->free(block);
  EXPECT_EQ(
      error_of([&] { allocator->free(block); }).message(), "no pinned block begins at 0x" + [&] {
        char text[20];
        std::snprintf(text, sizeof text, "%llx", static_cast<unsigned long long>(block));
        return std::string(text);
      }());
  EXPECT_EQ(allocate(4096), block);
  EXPECT_NE(allocate(4096), block);  // it was not cached twice
  EXPECT_EQ(active(), 2);
}

TEST_F(PinnedMemoryTest, IsFreedOnceAlsoWhileItWaits) {
  open();
  const Address block = waiting_block(4096, kStream);
  EXPECT_EQ(status_of([&] { allocator->free(block); }), Status::kInvalidArgument);
  finish(kStream);
  EXPECT_EQ(allocate(4096), block);
  EXPECT_NE(allocate(4096), block);
}

TEST_F(PinnedMemoryTest, IsKnownByItsBeginAlone) {
  open();
  const Address block = allocate(64 * KiB);
  for (const Address other : {block + 1, block + 512, block + 4096, block + 64 * KiB, Address{512},
                              Address{1} << 40, UINT64_MAX - 511, UINT64_MAX}) {
    EXPECT_EQ(status_of([&] { allocator->free(other); }), Status::kInvalidArgument);
    EXPECT_EQ(status_of([&] { allocator->size_of(other); }), Status::kInvalidArgument);
    EXPECT_EQ(status_of([&] { allocator->record_stream(other, 0, kStream); }),
              Status::kInvalidArgument);
  }
  EXPECT_EQ(status_of([&] { allocator->size_of(0); }), Status::kInvalidArgument);
  EXPECT_EQ(status_of([&] { allocator->record_stream(0, 0, 0); }), Status::kInvalidArgument);
  EXPECT_EQ(allocator->live_blocks(), 1u);
  allocator->free(block);
  EXPECT_EQ(worked("event_record"), 0u);
}

TEST_F(PinnedMemoryTest, ThatWasFreedTakesNoStreamAndHasNoSize) {
  open();
  const Address cached = allocate(4096);
  allocator->free(cached);
  const Address waiting = waiting_block(8192, kStream);
  for (const Address block : {cached, waiting}) {
    EXPECT_EQ(status_of([&] { allocator->record_stream(block, 0, kOther); }),
              Status::kInvalidState);
    EXPECT_EQ(status_of([&] { allocator->size_of(block); }), Status::kInvalidArgument);
  }
  finish(kStream);
  EXPECT_EQ(allocate(8192), waiting);
  EXPECT_EQ(worked("event_record 60"), 0u);
  allocator->empty_cache();
  EXPECT_EQ(status_of([&] { allocator->record_stream(cached, 0, kOther); }),
            Status::kInvalidArgument);
}

// ---- Statistics

TEST_F(PinnedMemoryTest, HasStatisticsOfBlocksAndBytes) {
  open();
  const Address first = allocate(3000);
  const Address second = allocate(100);
  allocator->free(first);
  PinnedStats stats = allocator->stats();
  EXPECT_EQ(stats.allocations.current, 2);
  EXPECT_EQ(stats.allocated_bytes.current, 4096 + 128);
  EXPECT_EQ(stats.active_requests.current, 1);
  EXPECT_EQ(stats.active_requests.peak, 2);
  EXPECT_EQ(stats.active_bytes.current, 128);
  EXPECT_EQ(stats.active_bytes.freed, 4096);
  allocator->reset_peak_stats();
  allocator->reset_accumulated_stats();
  allocator->free(second);
  allocator->empty_cache();
  stats = allocator->stats();
  EXPECT_EQ(stats.active_bytes.peak, 128);
  EXPECT_EQ(stats.active_bytes.allocated, 0);
  EXPECT_EQ(stats.allocations.peak, 2);
  EXPECT_EQ(stats.allocations.freed, 2);
  EXPECT_EQ(stats.allocate_times.count, 0);
  EXPECT_EQ(stats.free_times.count, 2);
}

// ---- The end

TEST_F(PinnedMemoryTest, IsFreedTogetherOnceItsStreamsAreDone) {
  open();
  allocate(4096);
  const Address used = allocate(8192);
  driver.machine().queue_work(0, kStream);
  allocator->record_stream(used, 0, kStream);
  waiting_block(16, kOther, 1);
  EXPECT_EQ(allocator->live_blocks(), 2u);
  allocator->free_all();
  EXPECT_EQ(allocator->live_blocks(), 0u);
  EXPECT_EQ(active(), 0);
  EXPECT_EQ(obtained(), 3);
  calls();
  EXPECT_EQ(worked("event_sync"), 2u);
  EXPECT_EQ(allocate(8192), used);
  allocator->free_all();
  allocator->empty_cache();
  EXPECT_EQ(pinned_bytes(), 0u);
}

TEST_F(PinnedMemoryTest, GoesBackWithTheAllocatorWhateverBecameOfIt) {
  open({.use_cuda_host_register = true, .reserve_segment_size = MiB});
  allocate(4096);                      // live, in the region
  allocate(2 * MiB);                   // live
  waiting_block(4 * MiB, kStream);     // waits
  allocator->free(allocate(8 * MiB));  // cached
  close();
  EXPECT_EQ(worked("host_unregister"), 4u);
}

// ---- Drivers that give what cannot be memory

class OddDriver final : public SimDriver {
 public:
  DriverCode host_allocate(uint64_t, HostMemoryOrigin, int, Address* address) override {
    *address = gives;
    return kSuccess;
  }
  DriverCode host_free(Address address, HostMemoryOrigin) override {
    given_back.push_back(address);
    return kSuccess;
  }

  Address gives = 0;
  std::vector<Address> given_back;
};

TEST(PinnedMemoryOfAnOddDriver, IsRefusedAndGivenBack) {
  OddDriver driver;
  KeptLog kept;
  Log log(kept.sink());
  const Rules rules = rules_of(Release::k2_15);
  for (const uint64_t region : {uint64_t{0}, MiB}) {
    PinnedAllocator allocator(driver, rules, log, {.reserve_segment_size = region});
    for (const Address address :
         {Address{0x7000} + 256, Address{1}, UINT64_MAX / 512 * 512, (Address{1} << 63) - 512}) {
      driver.gives = address;
      driver.given_back.clear();
      try {
        allocator.allocate(4096, 0, 0);
        ADD_FAILURE() << address;
      } catch (const Error& error) {
        EXPECT_EQ(error.status(), Status::kInvalidState);
        EXPECT_EQ(error.message().find("the driver gave pinned memory that cannot be: "), 0u)
            << error.message();
      }
      EXPECT_EQ(driver.given_back, std::vector<Address>{address});
    }
    driver.gives = 0;
    EXPECT_THROW(allocator.allocate(4096, 0, 0), Error);
    EXPECT_EQ(allocator.stats().allocations.current, 0);
    EXPECT_EQ(allocator.live_blocks(), 0u);
    EXPECT_EQ(driver.given_back.size(), 1u);  // nothing was given that could go back
  }
}

TEST(PinnedMemoryOfAnOddDriver, IsRefusedWhereABlockBeginsAlready) {
  OddDriver driver;
  KeptLog kept;
  Log log(kept.sink());
  const Rules rules = rules_of(Release::k2_15);
  PinnedAllocator allocator(driver, rules, log, {});
  driver.gives = 0x7000;
  EXPECT_EQ(allocator.allocate(4096, 0, 0), driver.gives);
  try {
    allocator.allocate(8192, 0, 0);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::kInvalidState) << error.message();
  }
  EXPECT_TRUE(driver.given_back.empty());  // that would take the first block's memory
  EXPECT_EQ(allocator.size_of(driver.gives), 4096u);
  EXPECT_EQ(allocator.stats().allocations.current, 1);
  allocator.free(driver.gives);
  allocator.empty_cache();
  EXPECT_EQ(driver.given_back, std::vector<Address>{driver.gives});
  EXPECT_EQ(allocator.allocate(8192, 0, 0), driver.gives);
}

}  // namespace
}  // namespace cachalot
