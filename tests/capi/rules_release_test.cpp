// SPDX-License-Identifier: MIT OR Apache-2.0
// A miss and what it gives back on its way: garbage collection, the rungs of the ladder, limits,
// the cache emptied [core 8, 13, 14, 15, R25].
#include <cmath>

#include "sim_fixture.h"

namespace cachalot_test {
namespace {

// ---- Garbage collection [core 13]

// Segments of 40, 40 and 60 MiB at 20, 60 and 100 MiB, and one that is split and in use at 0, so
// that 160 MiB are obtained. With the limit of 280 MiB, collection begins above 140 MiB.
class GarbageCollection : public testing::Test {
 protected:
  GarbageCollection() {
    with.set_limit(280 * MiB);
    with.allocate(2 * MiB, kOther);
    for (const uint64_t size : {40u, 40u, 60u}) blocks.push_back(with.allocate(size * MiB));
    with.watch();
  }

  // So many searches of the large pool that find something.
  void search(int times) {
    for (int i = 0; i < times; i++) with.free(with.allocate(2 * MiB, kOther));
    with.take_trace();
  }

  void free(std::initializer_list<size_t> indexes) {
    for (const size_t index : indexes) with.free(blocks[index]);
    with.take_trace();
  }

  // What a miss of the large pool gives back.
  std::string collected() {
    with.allocate(20 * MiB, kThird);
    const std::string trace = with.take_trace();
    return trace.substr(0, trace.find("segment_alloc"));
  }

  static constexpr cachalot_stream kOther = 0x10;
  static constexpr cachalot_stream kThird = 0x20;
  SimAllocator with{"garbage_collection_threshold:0.5"};
  std::vector<cachalot_address> blocks;
};

TEST_F(GarbageCollection, DoesNothingUpToTheThreshold) {
  free({0, 1, 2});
  with.set_limit(320 * MiB);
  EXPECT_EQ(collected(), "");
}

TEST_F(GarbageCollection, BeginsWithTheFirstByteAboveTheThreshold) {
  free({0, 1, 2});
  with.set_limit(320 * MiB - 2);
  EXPECT_NE(collected(), "");
}

TEST_F(GarbageCollection, ReleasesWhatIsOlderThanTheAverage) {
  free({0});
  search(3);
  free({1});
  search(1);
  free({2});
  EXPECT_EQ(collected(), "segment_free 20M 40M; ") << "ages 5, 2, 1";
}

TEST_F(GarbageCollection, ReleasesEverythingOfEqualAgeInOnePass) {
  free({0, 1, 2});
  search(1);
  EXPECT_EQ(collected(), "segment_free 20M 40M; segment_free 60M 40M; segment_free 100M 60M; ")
      << "ages 2, 2, 2";
}

TEST_F(GarbageCollection, MakesAnotherPassWhileTheTargetIsNotReached) {
  for (const uint64_t limit : {160u, 120u}) {  // targets 80 and 100 MiB
    SimAllocator other("garbage_collection_threshold:0.5");
    other.allocate(2 * MiB, kOther);
    other.cache({40, 40});
    struct State {
      SimAllocator* with;
      cachalot_address block;
    } state = {&other, other.allocate(60 * MiB)};
    other.set_limit(limit * MiB);
    // The block is freed after the search, so its age is 0, that of the others 1.
    const auto free_the_third = [](void* user_data, int32_t, uint64_t) -> int32_t {
      auto& s = *static_cast<State*>(user_data);
      s.with->free(std::exchange(s.block, 0));
      return 0;
    };
    other.ok(cachalot_register_free_memory_callback(other.get(), free_the_third, &state, nullptr,
                                                    nullptr, other.error()));
    other.allocate(20 * MiB, kThird);
    EXPECT_EQ(other.stats().num_device_free, limit == 160 ? 2 : 3);
  }
}

TEST_F(GarbageCollection, AgesByTheSearchesOfTheLargePoolOnly) {
  with.free(with.allocate(512));
  free({0});
  for (int i = 0; i < 3; i++) with.free(with.allocate(512));
  free({1, 2});
  EXPECT_EQ(collected(), "segment_free 20M 40M; segment_free 60M 40M; segment_free 100M 60M; ");
}

TEST_F(GarbageCollection, LetsAgesStandStillWhileItIsOff) {
  free({0});
  with.set_limit(UINT64_MAX);
  search(3);
  with.set_limit(280 * MiB);
  free({1, 2});
  EXPECT_EQ(collected(), "segment_free 20M 40M; segment_free 60M 40M; segment_free 100M 60M; ");
}

TEST_F(GarbageCollection, LeavesSplitBlocksAlone) {
  free({0, 1, 2});
  const cachalot_address piece = with.allocate(2 * MiB);  // of the first 40 MiB
  search(1);
  EXPECT_EQ(collected(), "segment_free 60M 40M; segment_free 100M 60M; ");
  with.free(piece);
}

TEST_F(GarbageCollection, LooksAtAllStreamsInTheirOrder) {
  const cachalot_address last = with.allocate(20 * MiB, 0x30);
  with.free(with.allocate(22 * MiB, 0x28));
  with.free(last);
  free({2});
  search(1);
  EXPECT_EQ(collected(),
            "segment_free 100M 60M; segment_free 180M 22M @28; segment_free 160M 20M @30; ");
}

TEST_F(GarbageCollection, LooksAtTheDefaultLargePoolOnly) {
  with.free(with.allocate(512));
  with.cache_in_pool(SimAllocator::user_pool(1), {20});
  with.take_trace();
  EXPECT_EQ(collected(), "");
}

TEST_F(GarbageCollection, NeverTakesExpandableMemory) {
  with.configure("garbage_collection_threshold:0.5,expandable_segments:True");
  with.free(with.allocate(20 * MiB, 0x30));
  with.configure("garbage_collection_threshold:0.5,expandable_segments:False");
  with.take_trace();
  EXPECT_EQ(collected(), "");
}

TEST_F(GarbageCollection, WaitsForNoEvents) {
  with.record_stream(blocks[0], kOther);
  free({0, 1, 2});
  search(1);
  collected();
  EXPECT_EQ(with.stats().num_sync_all_streams, 0);
}

TEST(GarbageCollectionWithoutALimit, DoesNothing) {
  SimAllocator with("garbage_collection_threshold:0.01");
  with.cache({40, 40});
  with.allocate(60 * MiB);
  EXPECT_EQ(with.reserved(), 140 * MiB);
}

// ---- The ladder [core 8.8, 15.2]

TEST(Ladder, GivesTheWholeCacheBackInItsOrder) {
  SimAllocator with(SimSetup{.capacity = 100 * MiB});
  const cachalot_address used_elsewhere = with.allocate(20 * MiB);
  with.free(with.allocate(22 * MiB, 0x10));
  with.free(with.allocate(512));
  const auto pool = SimAllocator::user_pool(1);
  with.create_pool(pool);
  with.begin_pool(pool);
  with.free(with.allocate(512));
  with.free(with.allocate(24 * MiB));
  with.leave_pool(pool);
  with.release_pool(pool);
  with.record_stream(used_elsewhere, 0x10);
  with.queue_work(0x10);
  with.free(used_elsewhere);
  with.watch();
  with.take_calls();
  with.allocate(90 * MiB);
  EXPECT_EQ(with.take_trace(),
            "free_completed 0 20M; segment_free 0 20M; segment_free 20M 22M @10; "
            "segment_free 42M 2M; segment_free 44M 2M; segment_free 46M 24M; "
            "segment_alloc 0 90M; alloc 0 90M");
  EXPECT_EQ(with.take_calls(),
            "malloc 90M oom; event_sync 10; free 0; free 20M; free 42M; free 44M; free 46M; "
            "malloc 90M 0");
  EXPECT_EQ(with.stats().num_alloc_retries, 1);
  EXPECT_EQ(with.stats().num_sync_all_streams, 1);
  EXPECT_EQ(with.stats().num_device_free, 5);
}

TEST(Ladder, KeepsWhatIsSplitAndThePoolsInUse) {
  SimAllocator with(SimSetup{.capacity = 100 * MiB});
  with.allocate(2 * MiB);
  with.cache_in_pool(SimAllocator::user_pool(1), {20});
  EXPECT_EQ(with.try_allocate(90 * MiB).status, CACHALOT_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(with.layout(), "0: used 2M, free 18M | 20M: free 20M");
}

TEST(Ladder, TriesFallbackPoolsBeforeAnythingIsReleased) {
  SimAllocator with(SimSetup{.capacity = 100 * MiB});
  with.cache({20});
  with.cache_in_pool(SimAllocator::user_pool(1), {60}, CACHALOT_POOL_USE_ON_OOM);
  with.watch();
  EXPECT_EQ(with.allocate(60 * MiB), kFirstAddress + 20 * MiB);
  EXPECT_EQ(with.take_trace(), "alloc 20M 60M");
  EXPECT_EQ(with.reserved(), 80 * MiB);
}

TEST(Ladder, CountsARetryThatTheLimitRefuses) {
  SimAllocator with;
  with.set_limit(10 * MiB);
  EXPECT_EQ(with.try_allocate(20 * MiB).status, CACHALOT_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(with.stats().num_alloc_retries, 1);
  EXPECT_EQ(with.take_calls(), "") << "the driver is not asked";
}

TEST(Ladder, SkipsTheReleaseUnderRoutingIn211Only) {
  for (const int32_t release : kReleases) {
    SimAllocator with(SimSetup{.release = release, .capacity = 100 * MiB});
    with.cache({60});
    const auto pool = SimAllocator::user_pool(1);
    with.begin_pool(pool);
    const bool is_old = release == CACHALOT_RELEASE_2_11;
    EXPECT_EQ(with.try_allocate(80 * MiB).status,
              is_old ? CACHALOT_ERROR_OUT_OF_MEMORY : CACHALOT_OK);
    EXPECT_EQ(with.stats().num_alloc_retries, is_old ? 0 : 1);
    with.leave_pool(pool);
  }
}

TEST(Ladder, LeavesAFailedRequestToBeRepeated) {
  SimAllocator with;
  with.fail_allocations(2);
  EXPECT_EQ(with.try_allocate(20 * MiB).status, CACHALOT_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(with.allocate(20 * MiB), kFirstAddress);
}

TEST(DriverError, EndsTheRequestAtOnce) {
  SimAllocator with;
  with.cache({20});
  with.fail(CACHALOT_SIM_CALL_ALLOCATE, 999);
  const Outcome outcome = with.try_allocate(40 * MiB);
  EXPECT_EQ(outcome.status, CACHALOT_ERROR_DRIVER);
  EXPECT_EQ(outcome.error.driver_code, 999);
  EXPECT_EQ(outcome.message().substr(0, 12), "CUDA error: ");
  EXPECT_EQ(with.reserved(), 20 * MiB);
}

TEST(PendingError, IsRaisedByAMissOnceAndNotByAHit) {
  SimAllocator with;
  with.cache({20});
  with.ok(cachalot_sim_set_pending_error(with.driver(), 700, with.error()));
  with.allocate(20 * MiB);
  EXPECT_EQ(with.try_allocate(20 * MiB).status, CACHALOT_ERROR_DRIVER);
  with.allocate(20 * MiB);
}

// ---- Oversize release [core 15.1]

TEST(OversizeRelease, GivesBackTheFirstBlockThatIsLargeEnough) {
  SimAllocator with(SimSetup{.config = "max_split_size_mb:40", .capacity = 200 * MiB});
  with.cache({30, 60, 100});
  with.watch();
  with.take_calls();
  with.allocate(38 * MiB);
  EXPECT_EQ(with.take_trace(), "segment_free 30M 60M; segment_alloc 30M 38M; alloc 30M 38M");
  EXPECT_EQ(with.take_calls(), "malloc 38M oom; free 30M; malloc 38M 30M");
  EXPECT_EQ(with.stats().num_alloc_retries, 0);
  EXPECT_EQ(with.stats().num_sync_all_streams, 0);
}

TEST(OversizeRelease, GoesBackwardsUntilEnoughIsReleased) {
  SimAllocator with(SimSetup{.config = "max_split_size_mb:40", .capacity = 160 * MiB});
  with.cache({40, 50, 60});
  with.watch();
  with.allocate(100 * MiB);
  EXPECT_EQ(with.take_trace(),
            "segment_free 90M 60M; segment_free 40M 50M; segment_alloc 40M 100M; alloc 40M 100M");
  EXPECT_EQ(with.stats().num_alloc_retries, 0);
}

TEST(OversizeRelease, ThatFailsHasReleasedAndAsksTheDriverNoSecondTime) {
  SimAllocator with(SimSetup{.config = "max_split_size_mb:40", .capacity = 120 * MiB});
  with.cache({22, 40, 50});
  with.watch();
  with.take_calls();
  with.allocate(100 * MiB);
  EXPECT_EQ(with.take_calls(), "malloc 100M oom; free 62M; free 22M; free 0; malloc 100M 0");
  EXPECT_EQ(with.stats().num_alloc_retries, 1);
}

TEST(OversizeRelease, StaysOnTheRequestsStream) {
  SimAllocator with(SimSetup{.config = "max_split_size_mb:40", .capacity = 100 * MiB});
  with.cache({60}, 0x10);
  with.take_calls();
  with.allocate(80 * MiB);
  EXPECT_EQ(with.take_calls(), "malloc 80M oom; free 0; malloc 80M 0");
  EXPECT_EQ(with.stats().num_alloc_retries, 1) << "by the release of everything";
}

TEST(OversizeRelease, NeedsASplitLimit) {
  SimAllocator with(SimSetup{.capacity = 100 * MiB});
  with.cache({60});
  with.allocate(80 * MiB);
  EXPECT_EQ(with.stats().num_alloc_retries, 1);
}

TEST(OversizeRelease, SkipsExpandableBlocks) {
  SimAllocator with(SimSetup{.config = "max_split_size_mb:40", .capacity = 100 * MiB});
  with.configure("max_split_size_mb:40,expandable_segments:True");
  with.cache({60});
  with.configure("max_split_size_mb:40,expandable_segments:False");
  with.allocate(80 * MiB);
  EXPECT_EQ(with.stats().num_alloc_retries, 1);
}

// ---- Limits [core 14]

TEST(MemoryLimit, AllowsEquality) {
  SimAllocator with;
  with.set_limit(60 * MiB);
  with.allocate(60 * MiB);
  EXPECT_EQ(with.try_allocate(1).status, CACHALOT_ERROR_OUT_OF_MEMORY);

  SimAllocator less;
  less.set_limit(60 * MiB - 1);
  EXPECT_EQ(less.try_allocate(60 * MiB).status, CACHALOT_ERROR_OUT_OF_MEMORY);
}

TEST(MemoryLimit, ComparesTheSizeOfAPlainSegmentForExpandableOnesToo) {
  SimAllocator with("expandable_segments:True");
  with.allocate(10 * MiB);
  with.set_limit(30 * MiB);
  with.allocate(10 * MiB);
  EXPECT_EQ(with.reserved(), 20 * MiB);
  EXPECT_EQ(with.try_allocate(2 * MiB).status, CACHALOT_ERROR_OUT_OF_MEMORY)
      << "20 MiB obtained, 20 MiB for a segment";
}

TEST(MemoryLimit, CountsTheMemoryOfPrivatePools) {
  SimAllocator with;
  with.set_limit(30 * MiB);
  with.cache_in_pool(SimAllocator::user_pool(1), {20});
  EXPECT_EQ(with.try_allocate(20 * MiB).status, CACHALOT_ERROR_OUT_OF_MEMORY);
}

TEST(MemoryLimit, ReleasesNothingWhenItIsSet) {
  SimAllocator with;
  with.cache({60});
  with.set_limit(10 * MiB);
  EXPECT_EQ(with.reserved(), 60 * MiB);
  with.allocate(60 * MiB);
}

TEST(MemoryFraction, IsRoundedDownIn211AndToTheNearestIn215) {
  for (const int32_t release : kReleases) {
    SimAllocator with(SimSetup{.release = release, .capacity = 1001});
    with.ok(cachalot_set_memory_fraction(with.get(), 0, 0.5, with.error()));
    uint64_t limit = 0;
    with.ok(cachalot_memory_limit(with.get(), 0, &limit, with.error()));
    EXPECT_EQ(limit, release == CACHALOT_RELEASE_2_11 ? 500u : 501u);
    double fraction = 0;
    with.ok(cachalot_memory_fraction(with.get(), 0, &fraction, with.error()));
    EXPECT_EQ(fraction, static_cast<double>(limit) / 1001);
  }
}

TEST(MemoryFraction, OfOneIsNoLimit) {
  SimAllocator with;
  for (const double fraction : {0.0, 1.0}) {
    with.ok(cachalot_set_memory_fraction(with.get(), 0, fraction, with.error()));
    double read = -1;
    with.ok(cachalot_memory_fraction(with.get(), 0, &read, with.error()));
    EXPECT_EQ(read, fraction);
    EXPECT_EQ(with.try_allocate(512).status,
              fraction == 0 ? CACHALOT_ERROR_OUT_OF_MEMORY : CACHALOT_OK);
  }
}

TEST(MemoryFraction, OutsideOfZeroToOneIsRefused) {
  SimAllocator with;
  const auto refused = [&](double fraction) {
    return with.refused(cachalot_set_memory_fraction(with.get(), 0, fraction, with.error()),
                        CACHALOT_ERROR_INVALID_ARGUMENT);
  };
  EXPECT_EQ(refused(1.5), "invalid fraction:1.5. Please set within [0, 1].");
  EXPECT_EQ(refused(-0.25), "invalid fraction:-0.25. Please set within [0, 1].");
  EXPECT_EQ(refused(std::nan("")), "invalid fraction:nan. Please set within [0, 1].");
  EXPECT_EQ(refused(1e30), "invalid fraction:1e+30. Please set within [0, 1].");
}

TEST(MemoryFraction, OfTheOptionsCountsWhenAnAllocatorIsMadeOnly) {
  SimAllocator with(SimSetup{.config = "per_process_memory_fraction:0.5", .capacity = 100 * MiB});
  with.configure("per_process_memory_fraction:0.1");
  with.allocate(50 * MiB);
  EXPECT_EQ(with.try_allocate(2 * MiB).status, CACHALOT_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(with.settings().per_process_memory_fraction, 0.1);
}

// ---- The cache emptied [core 15.2 to 15.5]

TEST(EmptyCache, GivesBackWholeSegmentsOfBothPoolsLargeOnesFirst) {
  SimAllocator with;
  with.free(with.allocate(512));
  with.cache({20});
  const cachalot_address kept = with.allocate(5 * MiB, 0x10);
  with.watch();
  with.empty_cache();
  EXPECT_EQ(with.take_trace(), "segment_free 2M 20M; segment_free 0 2M");
  EXPECT_EQ(with.layout(), "22M: used 5M, free 15M");
  EXPECT_EQ(with.stats().num_sync_all_streams, 1);
  with.free(kept);
}

TEST(EmptyCache, WaitsForRecordedStreams) {
  SimAllocator with;
  const cachalot_address block = with.allocate(20 * MiB);
  with.record_stream(block, 0x10);
  with.queue_work(0x10);
  with.free(block);
  with.watch();
  with.empty_cache();
  EXPECT_EQ(with.take_trace(), "free_completed 0 20M; segment_free 0 20M");
}

TEST(EmptyCache, CountsOneSynchronisationEachTime) {
  SimAllocator with;
  for (int i = 1; i <= 3; i++) {
    with.empty_cache();
    EXPECT_EQ(with.stats().num_sync_all_streams, i);
  }
}

TEST(EmptyCache, UnderRoutingLeavesTheDefaultPoolsAloneIn211Only) {
  for (const int32_t release : kReleases) {
    SimAllocator with(SimSetup{.release = release});
    with.cache({20});
    const auto pool = SimAllocator::user_pool(1);
    with.begin_pool(pool);
    with.empty_cache();
    const bool is_old = release == CACHALOT_RELEASE_2_11;
    EXPECT_EQ(with.reserved(), is_old ? 20 * MiB : 0);
    EXPECT_EQ(with.stats().num_sync_all_streams, is_old ? 0 : 1);
    with.leave_pool(pool);
  }
}

TEST(EmptyPool, GivesBackThatPoolOnlySmallOnesFirst) {
  SimAllocator with;
  with.cache({20});
  const auto pool = SimAllocator::user_pool(1);
  with.cache_in_pool(pool, {20, 1});
  with.watch();
  with.empty_pool(pool);
  EXPECT_EQ(with.take_trace(), "") << "it is in use";
  EXPECT_EQ(with.stats().num_sync_all_streams, 0);
  with.release_pool(pool);
  with.empty_pool(pool);
  EXPECT_EQ(with.take_trace(), "segment_free 40M 2M; segment_free 20M 20M");
  EXPECT_EQ(with.stats().num_sync_all_streams, 1);
  EXPECT_EQ(with.reserved(), 20 * MiB);
}

TEST(EmptyPool, OfAnUnknownPoolDoesNothing) {
  SimAllocator with;
  with.cache({20});
  with.empty_pool(SimAllocator::user_pool(7));
  EXPECT_EQ(with.reserved(), 20 * MiB);
  EXPECT_EQ(with.stats().num_sync_all_streams, 0);
}

TEST(ReleaseOfASegment, IsCountedAndTracedBeforeTheDriverIsAsked) {
  SimAllocator with;
  with.cache({20});
  with.watch();
  with.fail(CACHALOT_SIM_CALL_FREE, CACHALOT_DRIVER_INVALID_VALUE);
  EXPECT_EQ(with.refused(cachalot_empty_cache(with.get(), with.error()), CACHALOT_ERROR_DRIVER),
            "CUDA error: invalid argument");
  EXPECT_EQ(with.take_trace(), "segment_free 0 20M");
  EXPECT_EQ(with.stats().num_device_free, 1);
  EXPECT_EQ(with.stats().segment.all.current, 1);
  EXPECT_EQ(with.reserved(), 20 * MiB);
  with.empty_cache();
  EXPECT_EQ(with.reserved(), 0u);
}

TEST(LargestBlock, IsThatOfAnyFreeSetOrOfTheDevice) {
  SimAllocator with(SimSetup{.capacity = 100 * MiB});
  with.cache({20});
  with.cache_in_pool(SimAllocator::user_pool(1), {30});
  const auto largest = [&](uint64_t at_least) {
    uint64_t size = 0;
    with.ok(cachalot_largest_block(with.get(), 0, at_least, &size, with.error()));
    return size;
  };
  EXPECT_EQ(largest(1), 30 * MiB);
  EXPECT_EQ(largest(0), 50 * MiB) << "what the device has left";
  EXPECT_EQ(largest(40 * MiB), 40 * MiB);
}

// ---- Without caching [core 21]

TEST(UncachedBlock, ThatTheDriverDoesNotTakeBackStaysLive) {
  SimAllocator with;
  with.ok(cachalot_set_caching_enabled(with.get(), 0, with.error()));
  const cachalot_address block = with.allocate(20 * MiB);
  with.fail(CACHALOT_SIM_CALL_FREE, 700);
  with.refused(cachalot_free(with.get(), block, with.error()), CACHALOT_ERROR_DRIVER);
  EXPECT_EQ(with.block(block).size, 20 * MiB);
  with.free(block);
  with.refused(cachalot_free(with.get(), block, with.error()), CACHALOT_ERROR_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace cachalot_test
