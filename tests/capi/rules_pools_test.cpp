// SPDX-License-Identifier: MIT OR Apache-2.0
// Private pools: ids and use counts, routing, fallback, own sources of memory [core 17, R40, R82].
#include <algorithm>
#include <thread>

#include "sim_fixture.h"

namespace cachalot_test {
namespace {

constexpr cachalot_pool_id kPool = SimAllocator::user_pool(1);
constexpr cachalot_pool_id kInner = SimAllocator::user_pool(2);
constexpr cachalot_pool_id kGraph = SimAllocator::graph_pool(1);

// The id of the pool that serves a request, as "first,second".
std::string pool_of_request(SimAllocator& with, cachalot_stream stream = 0) {
  const cachalot_address address = with.allocate(512, stream);
  const cachalot_pool_id id = with.block(address).pool;
  with.free(address);
  return std::to_string(id.first) + "," + std::to_string(id.second);
}

std::string refused(SimAllocator& with, cachalot_status status) {
  return with.refused(status, CACHALOT_ERROR_INVALID_STATE);
}

// ---- Ids and use counts [core 17.1, 17.2, 17.5, 17.9]

TEST(PoolIds, AreCountedApartForUsersAndGraphs) {
  SimAllocator with;
  const auto next = [&](int32_t for_graph) {
    cachalot_pool_id id = {};
    with.ok(cachalot_pool_new_id(with.get(), for_graph, &id, with.error()));
    return std::to_string(id.first) + "," + std::to_string(id.second);
  };
  EXPECT_EQ(next(0), "0,1");
  EXPECT_EQ(next(0), "0,2");
  EXPECT_EQ(next(1), "1,0");
  EXPECT_EQ(next(0), "0,3");
}

TEST(PoolIds, AreUniqueOverThreads) {
  SimAllocator with;
  std::vector<uint64_t> seen(40);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; t++) {
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < 10; i++) {
        cachalot_pool_id id = {};
        cachalot_pool_new_id(with.get(), 0, &id, nullptr);
        seen[t * 10 + i] = id.second;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::sort(seen.begin(), seen.end());
  for (size_t i = 0; i < seen.size(); i++) EXPECT_EQ(seen[i], i + 1);
}

TEST(UseCount, RisesWithEachJoinAndEachBegin) {
  SimAllocator with;
  with.create_pool(kPool);
  EXPECT_EQ(with.use_count(kPool), 1);
  with.begin_pool(kPool);
  EXPECT_EQ(with.use_count(kPool), 2);
  with.end_pool(kPool);
  EXPECT_EQ(with.use_count(kPool), 2) << "the end of the routing leaves it";
  with.release_pool(kPool);
  EXPECT_EQ(with.use_count(kPool), 1);
  with.release_pool(kPool);
}

TEST(UseCount, OfZeroLetsThePoolBeJoinedNoMore) {
  SimAllocator with;
  with.cache_in_pool(kPool, {20});
  with.release_pool(kPool);
  refused(with, cachalot_pool_create(with.get(), 0, kPool, nullptr, with.error()));
  refused(with, cachalot_pool_begin(with.get(), 0, kPool, nullptr, with.error()));
  with.empty_cache();
  with.create_pool(kPool);
  EXPECT_EQ(with.use_count(kPool), 1) << "the id may be made anew when the pool has gone";
}

TEST(UseCount, BelowZeroIsRefusedAndStays) {
  SimAllocator with;
  with.cache_in_pool(kPool, {20});
  with.release_pool(kPool);
  refused(with, cachalot_pool_release(with.get(), 0, kPool, with.error()));
  EXPECT_EQ(with.use_count(kPool), -1);
  refused(with, cachalot_pool_release(with.get(), 0, SimAllocator::user_pool(9), with.error()));
}

TEST(ReleasedPool, IsKeptByItsLiveBlocks) {
  SimAllocator with;
  with.begin_pool(kPool);
  const cachalot_address block = with.allocate(20 * MiB);
  with.leave_pool(kPool);
  with.empty_cache();
  EXPECT_EQ(with.layout(), "0: used 20M");
  with.free(block);
  EXPECT_EQ(with.layout(), "0: free 20M");
  with.empty_cache();
  EXPECT_EQ(with.layout(), "");
}

// The cache is released on the way to memory for the very pool, which owns nothing then.
TEST(ReleasedPool, IsKeptByARequestThatIsStillRoutedToIt) {
  for (const int32_t release : kReleases) {
    SimAllocator with(SimSetup{.release = release});
    with.create_pool(kPool);
    with.begin_pool(kPool);
    with.release_pool(kPool);
    with.release_pool(kPool);
    with.fail_allocations();
    const Outcome outcome = with.try_allocate(20 * MiB);
    with.end_pool(kPool);
    if (release == CACHALOT_RELEASE_2_11) {  // routing forbids the release there
      EXPECT_EQ(outcome.status, CACHALOT_ERROR_OUT_OF_MEMORY);
      continue;
    }
    ASSERT_EQ(outcome.status, CACHALOT_OK) << outcome.message();
    EXPECT_EQ(with.layout(), "0: used 20M");
    with.free(outcome.address);
    with.empty_cache();
    EXPECT_EQ(with.layout(), "");
  }
}

TEST(PoolInUse, KeepsItsCacheInEveryRelease) {
  SimAllocator with;
  with.cache_in_pool(kPool, {20});
  with.empty_cache();
  with.empty_pool(kPool);
  EXPECT_EQ(with.reserved(), 20 * MiB);
}

// ---- Routing [core 17.3, 17.4]

TEST(Routing, TakesRequestsToThePoolUntilItEnds) {
  SimAllocator with;
  EXPECT_EQ(pool_of_request(with), "0,0");
  with.begin_pool(kPool);
  EXPECT_EQ(pool_of_request(with), "0,1");
  with.leave_pool(kPool);
  EXPECT_EQ(pool_of_request(with), "0,0");
}

TEST(Routing, KeepsTheMemoryOfPoolsApart) {
  SimAllocator with;
  with.cache({20});
  with.begin_pool(kPool);
  with.free(with.allocate(20 * MiB));
  with.leave_pool(kPool);
  with.watch();
  with.allocate(20 * MiB);
  EXPECT_EQ(with.take_trace(), "alloc 0 20M");
}

TEST(Routing, GoesToTheNewestEntryThatTakesTheRequest) {
  SimAllocator with;
  with.begin_pool(kPool, CACHALOT_ROUTE_ALL);
  with.begin_pool(kInner, CACHALOT_ROUTE_STREAM, 0x10);
  with.begin_pool(kGraph, CACHALOT_ROUTE_NONE);
  EXPECT_EQ(pool_of_request(with, 0x10), "0,2");
  EXPECT_EQ(pool_of_request(with, 0), "0,1");
  with.end_pool(kInner);
  EXPECT_EQ(pool_of_request(with, 0x10), "0,1");
  with.end_pool(kPool);
  EXPECT_EQ(pool_of_request(with, 0x10), "0,0");
  with.end_pool(kGraph);
}

TEST(Routing, NestsUserPools) {
  SimAllocator with;
  std::vector<cachalot_address> blocks;
  with.begin_pool(kPool);
  blocks.push_back(with.allocate(MiB));
  with.begin_pool(kInner);
  blocks.push_back(with.allocate(MiB));
  blocks.push_back(with.allocate(MiB));
  blocks.push_back(with.allocate(MiB));
  with.leave_pool(kInner);
  blocks.push_back(with.allocate(MiB));
  with.leave_pool(kPool);
  EXPECT_EQ(with.layout(kPool), "0: used 1M, used 1M");
  EXPECT_EQ(with.layout(kInner), "2M: used 1M, used 1M | 4M: used 1M, free 1M");
}

TEST(Routing, OfThisThreadLeavesOtherThreadsAlone) {
  SimAllocator with;
  with.begin_pool(kPool);
  std::string elsewhere;
  std::thread([&] { elsewhere = pool_of_request(with); }).join();
  EXPECT_EQ(elsewhere, "0,0");
  EXPECT_EQ(pool_of_request(with), "0,1");
  with.leave_pool(kPool);
}

// The system gives their ids to the next threads.
TEST(Routing, OfAThreadThatHasEndedTakesNoRequestOfLaterThreads) {
  SimAllocator with;
  std::thread([&] { with.begin_pool(kPool); }).join();
  for (int i = 0; i < 100; i++) {
    std::string pool;
    std::thread([&] { pool = pool_of_request(with); }).join();
    ASSERT_EQ(pool, "0,0") << "thread " << i;
  }
  with.leave_pool(kPool);
}

TEST(Routing, OfAllTakesOtherThreadsToo) {
  SimAllocator with;
  with.begin_pool(kPool, CACHALOT_ROUTE_ALL);
  std::string elsewhere;
  std::thread([&] { elsewhere = pool_of_request(with); }).join();
  EXPECT_EQ(elsewhere, "0,1");
  with.leave_pool(kPool);
}

TEST(Routing, OfACaptureTakesItsStreamsOnly) {
  SimAllocator with;
  with.begin_capture(kGraph, 0x10, 7);
  with.ok(cachalot_sim_fork_capture(with.driver(), 0, 0x10, 0x20, with.error()));
  with.ok(cachalot_sim_begin_capture(with.driver(), 0, 0x30, 8, with.error()));
  EXPECT_EQ(pool_of_request(with, 0x10), "1,0");
  EXPECT_EQ(pool_of_request(with, 0x20), "1,0");
  EXPECT_EQ(pool_of_request(with, 0x30), "0,0") << "another capture";
  EXPECT_EQ(pool_of_request(with, 0x40), "0,0");
  EXPECT_EQ(with.segments(kGraph).size(), 2u) << "one for each stream";
  with.end_capture(kGraph, 7);
}

TEST(Routing, ByAFunctionAsksItForTheStream) {
  SimAllocator with;
  cachalot_pool_route route = {};
  route.struct_size = sizeof route;
  route.kind = CACHALOT_ROUTE_PREDICATE;
  route.predicate = [](void*, cachalot_stream stream) -> int32_t { return stream >= 0x20; };
  with.ok(cachalot_pool_begin(with.get(), 0, kPool, &route, with.error()));
  EXPECT_EQ(pool_of_request(with, 0x10), "0,0");
  EXPECT_EQ(pool_of_request(with, 0x20), "0,1");
  with.leave_pool(kPool);
}

TEST(Routing, ToAPoolThatIsRoutedToIsRefusedAndRaisesItsUseCount) {
  SimAllocator with;
  with.begin_pool(kPool);
  EXPECT_EQ(refused(with, cachalot_pool_begin(with.get(), 0, kPool, nullptr, with.error())),
            "beginAllocateToPool: already recording to mempool_id");
  EXPECT_EQ(with.use_count(kPool), 2);
  with.leave_pool(kPool);
  EXPECT_EQ(refused(with, cachalot_pool_end(with.get(), 0, kPool, with.error())),
            "endAllocatePool: not currently recording to mempool_id");
}

TEST(UseCount, OfAnUnknownPoolIsRefused) {
  SimAllocator with;
  int32_t count = 0;
  refused(with, cachalot_pool_use_count(with.get(), 0, kPool, &count, with.error()));
}

TEST(Pools, OfTwoDevicesWithOneIdAreTwo) {
  SimAllocator with(SimSetup{.device_count = 2});
  with.begin_pool(kPool);  // on device 0
  const cachalot_address block = with.allocate(512, 0, 1);
  EXPECT_EQ(with.block(block).pool.second, 0u);
  int32_t count = -1;
  refused(with, cachalot_pool_use_count(with.get(), 1, kPool, &count, with.error()));
  with.leave_pool(kPool);
}

// ---- Fallback [core 17.7]

TEST(Fallback, ServesARequestThatWouldFailFromAPoolThatOptedIn) {
  SimAllocator with(SimSetup{.capacity = 60 * MiB});
  with.cache_in_pool(kPool, {40}, CACHALOT_POOL_USE_ON_OOM);
  with.watch();
  with.take_calls();
  const cachalot_address block = with.allocate(30 * MiB);
  EXPECT_EQ(with.take_trace(), "alloc 0 30M");
  EXPECT_EQ(with.take_calls(), "malloc 30M oom");
  EXPECT_EQ(with.block(block).pool.second, 1u);
  EXPECT_EQ(with.use_count(kPool), 1);
}

TEST(Fallback, NeedsTheFlag) {
  SimAllocator with(SimSetup{.capacity = 60 * MiB});
  with.cache_in_pool(kPool, {40});
  EXPECT_EQ(with.try_allocate(30 * MiB).status, CACHALOT_ERROR_OUT_OF_MEMORY);
  with.ok(cachalot_pool_set_use_on_oom(with.get(), 0, kPool, 1, with.error()));
  with.free(with.allocate(30 * MiB));
  with.ok(cachalot_pool_set_use_on_oom(with.get(), 0, kPool, 0, with.error()));
  EXPECT_EQ(with.try_allocate(30 * MiB).status, CACHALOT_ERROR_OUT_OF_MEMORY);
}

TEST(Fallback, NeverGrowsThePool) {
  SimAllocator with(SimSetup{.capacity = 60 * MiB});
  with.cache_in_pool(kPool, {20}, CACHALOT_POOL_USE_ON_OOM);
  with.allocate(30 * MiB);
  EXPECT_EQ(with.try_allocate(30 * MiB).status, CACHALOT_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(with.layout(kPool), "0: free 20M");
}

TEST(Fallback, IsNotForRequestsOfPrivatePools) {
  SimAllocator with(SimSetup{.capacity = 60 * MiB});
  with.cache_in_pool(kPool, {40}, CACHALOT_POOL_USE_ON_OOM);
  with.begin_pool(kInner);
  EXPECT_EQ(with.try_allocate(30 * MiB).status, CACHALOT_ERROR_OUT_OF_MEMORY);
  with.leave_pool(kInner);
}

TEST(Fallback, HandsOutAsIfExpandableSegmentsWereOff) {
  SimAllocator with(SimSetup{.capacity = 60 * MiB});
  with.cache_in_pool(kPool, {40}, CACHALOT_POOL_USE_ON_OOM);
  with.configure("expandable_segments:True");
  const cachalot_address block = with.allocate(39 * MiB + 512 * KiB);
  EXPECT_EQ(with.block(block).size, 40 * MiB) << "the slack of 512 KiB is not cut off";
}

TEST(Fallback, MakesAnUnknownPoolForAMoment) {
  SimAllocator with(SimSetup{.capacity = 60 * MiB});
  with.ok(cachalot_pool_set_use_on_oom(with.get(), 0, kPool, 1, with.error()));
  EXPECT_EQ(with.try_allocate(80 * MiB).status, CACHALOT_ERROR_OUT_OF_MEMORY);
  with.create_pool(kPool);
  EXPECT_EQ(with.use_count(kPool), 1);
}

// ---- No split [core 17.8]

TEST(NoSplit, CanBeSaidBeforeThePoolExists) {
  SimAllocator with;
  with.ok(cachalot_pool_set_no_split(with.get(), 0, kPool, with.error()));
  with.begin_pool(kPool);
  with.allocate(4 * MiB);
  EXPECT_EQ(with.layout(), "0: used 20M");
  with.leave_pool(kPool);
}

TEST(NoSplit, OutlivesTheLastUseIn211AndGoesWithItIn215) {
  for (const int32_t release : kReleases) {
    SimAllocator with(SimSetup{.release = release});
    with.cache_in_pool(kPool, {20}, CACHALOT_POOL_NO_SPLIT);
    with.release_pool(kPool);
    with.empty_cache();
    with.begin_pool(kPool);
    with.allocate(4 * MiB);
    EXPECT_EQ(with.layout(),
              release == CACHALOT_RELEASE_2_11 ? "0: used 20M" : "0: used 4M, free 16M");
    with.leave_pool(kPool);
  }
}

// ---- Own sources of memory [core 17.10, R82]

// Counts and keeps accounts; gives ranges of its own.
struct Source {
  uint64_t left = 100 * MiB;
  cachalot_address next = 2 * kFirstAddress;
  std::string calls = {};
  int destroyed = 0;

  static cachalot_address allocate(void* user_data, uint64_t size, int32_t device,
                                   cachalot_stream stream) {
    auto& self = *static_cast<Source*>(user_data);
    self.calls += "allocate " + size_text(size) + " " + std::to_string(device) + " " +
                  std::to_string(stream) + "; ";
    if (size > self.left) return 0;
    self.left -= size;
    return std::exchange(self.next, self.next + size);
  }

  static void free(void* user_data, cachalot_address, uint64_t size, int32_t device,
                   cachalot_stream stream) {
    auto& self = *static_cast<Source*>(user_data);
    self.calls += "free " + size_text(size) + " " + std::to_string(device) + " " +
                  std::to_string(stream) + "; ";
    self.left += size;
  }

  static void destroy(void* user_data) { static_cast<Source*>(user_data)->destroyed++; }
};

cachalot_status create_with_source(SimAllocator& with, cachalot_pool_id id, Source* source) {
  cachalot_pool_source callbacks = {sizeof callbacks, Source::allocate, Source::free, source,
                                    Source::destroy};
  cachalot_pool_options options = {};
  options.struct_size = sizeof options;
  options.source = &callbacks;
  return cachalot_pool_create(with.get(), 0, id, &options, with.error());
}

TEST(PoolSource, GivesThePoolsSegmentsAndTakesThemBack) {
  Source source;
  SimAllocator with;
  with.ok(create_with_source(with, kPool, &source));
  with.begin_pool(kPool);
  EXPECT_EQ(with.use_count(kPool), 2);
  std::vector<cachalot_address> blocks;
  for (int i = 0; i < 3; i++) blocks.push_back(with.allocate(MiB, 0x10));
  EXPECT_EQ(source.calls, "allocate 2M 0 16; allocate 2M 0 16; ")
      << "two blocks of 1 MiB in each segment";
  EXPECT_EQ(with.take_calls(), "");
  EXPECT_EQ(with.reserved(), 4 * MiB);
  with.leave_pool(kPool);
  EXPECT_EQ(with.use_count(kPool), 1);
  for (const cachalot_address block : blocks) with.free(block);
  source.calls.clear();
  with.release_pool(kPool);
  EXPECT_EQ(source.destroyed, 0);
  with.empty_cache();
  EXPECT_EQ(source.calls, "free 2M 0 16; free 2M 0 16; ");
  EXPECT_EQ(source.destroyed, 1);
}

TEST(PoolSource, IsKeptByALiveBlock) {
  Source source;
  {
    SimAllocator with;
    with.ok(create_with_source(with, kPool, &source));
    with.begin_pool(kPool);
    const cachalot_address block = with.allocate(MiB);
    with.leave_pool(kPool);
    with.release_pool(kPool);
    with.empty_cache();
    EXPECT_EQ(source.destroyed, 0);
    with.free(block);
    with.empty_cache();
    EXPECT_EQ(source.destroyed, 1);
  }
  EXPECT_EQ(source.calls, "allocate 2M 0 0; free 2M 0 0; ");
}

TEST(PoolSource, NeverGivesExpandableSegments) {
  Source source;
  SimAllocator with("expandable_segments:True");
  with.ok(create_with_source(with, kPool, &source));
  with.begin_pool(kPool);
  with.allocate(2 * MiB);
  with.leave_pool(kPool);
  with.begin_pool(kInner);
  with.allocate(2 * MiB);
  with.leave_pool(kInner);
  EXPECT_EQ(source.calls, "allocate 20M 0 0; ");
  ASSERT_EQ(with.segments(kPool).size(), 1u);
  EXPECT_EQ(with.segments(kPool)[0].is_expandable, 0);
  EXPECT_EQ(with.segments(kInner)[0].is_expandable, 1);
}

TEST(PoolSource, IsForANewPoolOnly) {
  Source source;
  Source late;
  SimAllocator with;
  with.ok(create_with_source(with, kPool, &source));
  refused(with, create_with_source(with, kPool, &late));
  EXPECT_EQ(late.destroyed, 1);
  EXPECT_EQ(with.use_count(kPool), 1);
}

TEST(PoolSource, ThatGivesNothingCountsAsOutOfMemory) {
  for (const int32_t release : kReleases) {
    Source source;
    SimAllocator with(SimSetup{.release = release});
    with.ok(create_with_source(with, kPool, &source));
    with.begin_pool(kPool);
    const Outcome outcome = with.try_allocate(200 * MiB);
    EXPECT_EQ(outcome.status, CACHALOT_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(outcome.reference_text().ends_with(
                  " The custom allocator backing this MemPool returned nullptr. Check preceding "
                  "allocator warnings or logs for the underlying cause. This can indicate an "
                  "allocator-specific error or memory constraint, even when device-wide free "
                  "memory is available."),
              release == CACHALOT_RELEASE_2_15);
    with.set_limit(10 * MiB);
    EXPECT_TRUE(with.try_allocate(200 * MiB).reference_text().ends_with("pytorch-cuda-alloc-conf)"))
        << "the limit refused, not the source";
    with.leave_pool(kPool);
  }
}

TEST(PoolSource, CountsForTheStatisticsAndTheLimit) {
  Source source;
  SimAllocator with;
  with.ok(create_with_source(with, kPool, &source));
  with.begin_pool(kPool);
  with.allocate(20 * MiB);
  with.leave_pool(kPool);
  EXPECT_EQ(with.stats().segment.large_pool.current, 1);
  EXPECT_EQ(with.stats().num_device_alloc, 1);
  with.set_limit(30 * MiB);
  EXPECT_EQ(with.try_allocate(20 * MiB).status, CACHALOT_ERROR_OUT_OF_MEMORY);
}

TEST(PoolSource, ServesAsFallback) {
  Source source;
  SimAllocator with(SimSetup{.capacity = 10 * MiB});
  with.ok(create_with_source(with, kPool, &source));
  with.ok(cachalot_pool_set_use_on_oom(with.get(), 0, kPool, 1, with.error()));
  with.begin_pool(kPool);
  const cachalot_address cached = with.allocate(20 * MiB);
  with.free(cached);
  with.leave_pool(kPool);
  EXPECT_EQ(with.allocate(20 * MiB), cached);
  EXPECT_EQ(with.try_allocate(20 * MiB).status, CACHALOT_ERROR_OUT_OF_MEMORY);
}

// ---- Live check [core 17.13]

TEST(LiveCheck, HoldsForExactlyTheBlocksThatAreHandedOut) {
  SimAllocator with;
  with.begin_pool(kPool);
  const cachalot_address a = with.allocate(1000);
  const cachalot_address b = with.allocate(20 * MiB, 0x10);
  const cachalot_address c = with.allocate(2 * MiB);
  with.leave_pool(kPool);
  with.free(c);
  const cachalot_address outside = with.allocate(512);
  const auto has = [&](std::vector<cachalot_address> addresses) {
    int32_t equal = -1;
    with.ok(cachalot_pool_has_live(with.get(), 0, kPool, addresses.data(), addresses.size(), &equal,
                                   with.error()));
    return equal;
  };
  EXPECT_EQ(has({a, b}), 1);
  EXPECT_EQ(has({b, a}), 1);
  EXPECT_EQ(has({a}), 0);
  EXPECT_EQ(has({a, b, c}), 0);
  EXPECT_EQ(has({a, b, outside}), 0);
  EXPECT_EQ(has({}), 0);
}

TEST(LiveCheck, OfAnUnknownPoolIsRefused) {
  SimAllocator with;
  int32_t equal = 0;
  EXPECT_EQ(
      with.refused(cachalot_pool_has_live(with.get(), 0, kPool, nullptr, 0, &equal, with.error()),
                   CACHALOT_ERROR_INVALID_ARGUMENT),
      "Could not find pool of id");
}

// ---- Reserved bytes of each pool (R40)

std::string pool_rows(SimAllocator& with) {
  size_t count = 0;
  with.ok(cachalot_pool_stats_count(with.get(), 0, &count, with.error()));
  std::vector<std::string> rows;
  for (size_t i = 0; i < count; i++) {
    cachalot_pool_stats row = {};
    row.struct_size = sizeof row;
    with.ok(cachalot_pool_stats_at(with.get(), 0, i, &row, with.error()));
    const cachalot_stat& all = row.reserved_bytes.all;
    rows.push_back(std::to_string(row.pool.first) + "," + std::to_string(row.pool.second) + ": " +
                   size_text(static_cast<uint64_t>(all.current)) + "/" +
                   size_text(static_cast<uint64_t>(all.peak)) + "/" +
                   size_text(static_cast<uint64_t>(all.allocated)) + "/" +
                   size_text(static_cast<uint64_t>(all.freed)));
  }
  return joined(rows, "; ");
}

TEST(PoolStats, FollowTheReservedBytesOfEachPool) {
  SimAllocator with;
  with.cache({20});
  with.create_pool(kInner);
  EXPECT_EQ(pool_rows(with), "") << "a row comes with the first segment";
  with.cache_in_pool(kPool, {20, 1});
  with.cache_in_pool(kGraph, {40});
  EXPECT_EQ(pool_rows(with), "0,1: 22M/22M/22M/0; 1,0: 40M/40M/40M/0");
  with.release_pool(kPool);
  with.empty_cache();
  EXPECT_EQ(pool_rows(with), "0,1: 0/22M/22M/22M; 1,0: 40M/40M/40M/0") << "the row stays";
  with.cache_in_pool(kPool, {20});
  EXPECT_EQ(pool_rows(with), "0,1: 20M/22M/42M/22M; 1,0: 40M/40M/40M/0")
      << "a new pool of the same id goes on with it";
}

TEST(PoolStats, ComeWithTheFirstBytesThatAreReallyObtained) {
  for (const char* config : {"", "expandable_segments:True"}) {
    SimAllocator with(config);
    with.create_pool(kPool);
    with.begin_pool(kPool);
    with.fail_allocations(2);  // and after the cache was given back
    EXPECT_EQ(with.try_allocate(20 * MiB).status, CACHALOT_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(pool_rows(with), "") << config;
    with.cache({20});
    EXPECT_EQ(pool_rows(with), "0,1: 20M/20M/20M/0") << config;
    with.leave_pool(kPool);
  }
}

TEST(PoolStats, AreResetLikeTheReservedBytes) {
  SimAllocator with("expandable_segments:True");
  with.cache_in_pool(kPool, {40});
  with.release_pool(kPool);
  with.empty_cache();
  with.ok(cachalot_reset_peak_stats(with.get(), 0, with.error()));
  EXPECT_EQ(pool_rows(with), "0,1: 0/0/40M/40M");
  with.ok(cachalot_reset_accumulated_stats(with.get(), 0, with.error()));
  EXPECT_EQ(pool_rows(with), "0,1: 0/0/0/0");
}

TEST(PoolStats, AreNotIn211) {
  SimAllocator with(SimSetup{.release = CACHALOT_RELEASE_2_11});
  with.cache_in_pool(kPool, {20});
  EXPECT_EQ(pool_rows(with), "");
}

}  // namespace
}  // namespace cachalot_test
