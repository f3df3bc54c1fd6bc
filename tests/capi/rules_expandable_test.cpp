// SPDX-License-Identifier: MIT OR Apache-2.0
// Expandable segments: reserving, growing, unmapping, reserves, handle types [exp 1 to 9,
// R60, R65 to R68].
#include <utility>

#include "sim_fixture.h"

namespace cachalot_test {
namespace {

constexpr char kOn[] = "expandable_segments:True";
constexpr cachalot_pool_id kPool = SimAllocator::user_pool(1);

// ---- Reserving [exp 1]

// Bytes and number of all reserved ranges.
std::pair<uint64_t, uint64_t> totals(SimAllocator& with) {
  std::pair<uint64_t, uint64_t> totals;
  with.ok(cachalot_expandable_totals(with.get(), &totals.first, &totals.second, with.error()));
  return totals;
}

TEST(ExpandableSegment, ReservesNineEighthsOfTheDeviceInWholePages) {
  const std::pair<uint64_t, uint64_t> cases[] = {{80 * GiB, 96636764160},
                                                 {150110011392, 168883650560}};
  for (const auto& [capacity, reserved] : cases) {
    SimAllocator with(SimSetup{.config = kOn, .capacity = capacity});
    with.allocate(2 * MiB);
    EXPECT_EQ(totals(with).first, reserved);
    EXPECT_EQ(with.take_calls().substr(0, 7), "reserve");
  }
}

TEST(ExpandableSegment, HasPagesOfTwoMiBInTheSmallPoolAndTwentyInTheLargeOne) {
  SimAllocator with(kOn);
  with.allocate(1000);
  EXPECT_EQ(with.reserved(), 2 * MiB);
  with.allocate(2 * MiB);
  EXPECT_EQ(with.reserved(), 22 * MiB);
}

TEST(ExpandableSegment, IsMadeOncePerPoolAndStream) {
  SimAllocator with(kOn);
  for (const cachalot_stream stream : {0x0u, 0x10u, 0x20u}) {
    with.allocate(2 * MiB, stream);
    with.allocate(30 * MiB, stream);
    with.allocate(1000, stream);
  }
  EXPECT_EQ(totals(with).second, 6u);
  EXPECT_EQ(with.stats().segment.all.current, 0) << "they are not counted as segments";
}

TEST(ExpandableSegment, CallsTheDriverPageByPage) {
  SimAllocator with(SimSetup{.config = kOn, .capacity = 160 * MiB});
  with.allocate(30 * MiB);
  EXPECT_EQ(with.take_calls(),
            "reserve 180M 0; create 20M; create 20M; map 0 20M; map 20M 20M; access 0 40M");
}

TEST(ExpandableSegment, ThatCannotBeReservedIsADriverErrorAndLeavesNothing) {
  SimAllocator with(kOn);
  with.fail(CACHALOT_SIM_CALL_RESERVE, CACHALOT_DRIVER_OUT_OF_MEMORY);
  const Outcome outcome = with.try_allocate(2 * MiB);
  EXPECT_EQ(outcome.status, CACHALOT_ERROR_DRIVER);
  EXPECT_EQ(outcome.message(), "CUDA driver error: out of memory");
  EXPECT_EQ(totals(with).second, 0u);
  with.allocate(2 * MiB);
}

// ---- Worked examples [exp 9]

class WorkedExample : public testing::Test {
 protected:
  WorkedExample() { with.watch(); }

  SimAllocator with{kOn};
};

TEST_F(WorkedExample, GrowsIsCutAndReused) {
  const cachalot_address a = with.allocate(2 * MiB);
  EXPECT_EQ(with.take_trace(), "segment_map 0 20M; alloc 0 2M");
  const cachalot_address b = with.allocate(32 * MiB);
  EXPECT_EQ(with.take_trace(), "segment_map 20M 20M; alloc 2M 32M");
  EXPECT_EQ(with.reserved(), 40 * MiB);
  EXPECT_EQ(with.layout(), "0: used 2M, used 32M, free 6M");
  const cachalot_stats stats = with.stats();
  EXPECT_EQ(stats.num_device_alloc, 2);
  EXPECT_EQ(stats.segment.all.current, 0);
  EXPECT_EQ(stats.inactive_split.all.allocated, 0);
  EXPECT_EQ(stats.inactive_split_bytes.all.allocated, 0);
  EXPECT_EQ(stats.active_bytes.all.current, static_cast<int64_t>(34 * MiB));

  with.free(a);
  EXPECT_EQ(with.take_trace(), "free_requested 0 2M; free_completed 0 2M");
  const cachalot_address c = with.allocate(MiB);
  EXPECT_EQ(c, kFirstAddress + 90 * GiB) << "the small pool has a range of its own";
  EXPECT_EQ(with.reserved(), 42 * MiB);
  with.take_trace();
  with.allocate(4 * MiB);
  EXPECT_EQ(with.take_trace(), "alloc 34M 4M");
  with.allocate(2 * MiB);
  EXPECT_EQ(with.take_trace(), "alloc 0 2M") << "the block at 38 MiB reaches into the tail";
  EXPECT_EQ(with.reserved(), 42 * MiB);
  with.free(b);
}

TEST_F(WorkedExample, GrowsAFreeBlockBeforeTheTail) {
  with.free(with.allocate(2 * MiB));
  with.take_trace();
  with.allocate(32 * MiB);
  EXPECT_EQ(with.take_trace(), "segment_map 20M 20M; alloc 0 32M");
  EXPECT_EQ(with.layout(), "0: used 32M, free 8M");
}

TEST_F(WorkedExample, GrowsTheSmallPoolByTwoMiB) {
  for (int i = 0; i < 3; i++) with.allocate(MiB);
  EXPECT_EQ(with.take_trace(),
            "segment_map 0 2M; alloc 0 1M; alloc 1M 1M; segment_map 2M 2M; alloc 2M 1M");
  EXPECT_EQ(with.layout(), "0: used 1M, used 1M, used 1M, free 1M");
}

TEST_F(WorkedExample, MapsAWholePageForTenMiB) {
  with.allocate(10 * MiB);
  EXPECT_EQ(with.layout(), "0: used 10M, free 10M");
}

TEST_F(WorkedExample, MapsManyPagesInOneCall) {
  with.allocate(45 * MiB);
  EXPECT_EQ(with.take_trace(), "segment_map 0 60M; alloc 0 45M");
  EXPECT_EQ(with.stats().num_device_alloc, 1);
}

// Leaves 20 MiB unmapped and 20 MiB free before the tail: a live piece keeps the second page.
TEST_F(WorkedExample, MapsTwoHolesInTwoCalls) {
  const cachalot_address first = with.allocate(20 * MiB);
  const cachalot_address second = with.allocate(20 * MiB);
  with.free(first);
  with.empty_cache();
  with.free(second);
  EXPECT_EQ(with.layout(), "20M: free 20M");
  with.take_trace();
  with.allocate(50 * MiB);
  EXPECT_EQ(with.take_trace(), "segment_map 0 20M; segment_map 40M 20M; alloc 0 50M");
  EXPECT_EQ(with.layout(), "0: used 50M, free 10M");
  EXPECT_EQ(with.reserved(), 60 * MiB);
}

TEST_F(WorkedExample, UnmapsWholePagesOnly) {
  const cachalot_address front = with.allocate(30 * MiB);
  with.allocate(2 * MiB);
  const cachalot_address back = with.allocate(48 * MiB);
  with.free(front);
  with.free(back);
  with.take_trace();
  with.empty_cache();
  EXPECT_EQ(with.take_trace(), "segment_unmap 0 20M; segment_unmap 40M 40M");
  EXPECT_EQ(with.layout(), "20M: free 10M, used 2M, free 8M");
  EXPECT_EQ(with.stats().num_device_free, 2);
  EXPECT_EQ(with.reserved(), 20 * MiB);
}

// ---- Choosing and growing [exp 2, 3]

TEST(Growth, FillsTheLowestHoleThatIsLargeEnough) {
  SimAllocator with(kOn);
  std::vector<cachalot_address> pages;
  for (int i = 0; i < 6; i++) pages.push_back(with.allocate(20 * MiB));
  for (const size_t i : {0u, 2u, 3u}) with.free(pages[i]);
  with.empty_cache();
  EXPECT_EQ(with.layout(), "20M: used 20M | 80M: used 20M, used 20M");
  with.watch();
  with.allocate(30 * MiB);
  EXPECT_EQ(with.take_trace(), "segment_map 40M 40M; alloc 40M 30M");
}

TEST(Growth, TakesABlockThatTheSearchRefusedIfTheTailFollows) {
  SimAllocator with("expandable_segments:True,max_split_size_mb:20");
  with.cache({60});
  with.watch();
  with.allocate(10 * MiB);
  EXPECT_EQ(with.take_trace(), "alloc 0 10M") << "nothing is mapped";
  EXPECT_EQ(with.layout(), "0: used 10M, free 50M");
}

TEST(Growth, MapsNewPagesIfALiveBlockIsBetween) {
  SimAllocator with("expandable_segments:True,max_split_size_mb:20");
  const cachalot_address block = with.allocate(60 * MiB);
  with.allocate(20 * MiB);
  with.free(block);
  with.watch();
  with.allocate(10 * MiB);
  EXPECT_EQ(with.take_trace(), "segment_map 80M 20M; alloc 80M 10M");
}

TEST(Growth, ThatRunsOutOfMemoryKeepsWhatItMappedBefore) {
  SimAllocator with(SimSetup{.config = kOn, .capacity = 160 * MiB});
  const cachalot_address first = with.allocate(20 * MiB);
  const cachalot_address second = with.allocate(20 * MiB);
  with.free(first);
  with.empty_cache();
  with.free(second);
  with.begin_pool(kPool, CACHALOT_ROUTE_NONE);
  with.ok(cachalot_capture_begin(with.get(), 0, with.error()));
  with.ok(cachalot_sim_begin_capture(with.driver(), 0, 0, 1, with.error()));
  with.fail(CACHALOT_SIM_CALL_CREATE, CACHALOT_DRIVER_OUT_OF_MEMORY, 1);
  with.watch();
  with.take_calls();
  EXPECT_EQ(with.try_allocate(50 * MiB).status, CACHALOT_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(with.take_trace(), "segment_map 0 20M; oom 120M 50M");
  EXPECT_EQ(with.layout(), "0: free 40M");
  EXPECT_EQ(with.reserved(), 40 * MiB);
  with.ok(cachalot_sim_end_capture(with.driver(), 0, 1, with.error()));
  with.ok(cachalot_capture_end(with.get(), 0, with.error()));
  with.leave_pool(kPool);
}

TEST(Growth, ThatRunsOutOfMemoryReleasesThePagesOfTheCall) {
  SimAllocator with(SimSetup{.config = kOn, .capacity = 45 * MiB});
  with.take_calls();
  EXPECT_EQ(with.try_allocate(45 * MiB).status, CACHALOT_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(with.take_calls(),
            "reserve 60M 0; create 20M; create 20M; create 20M oom; release; release; "
            "create 20M; create 20M; create 20M oom; release; release");
  EXPECT_EQ(with.reserved(), 0u);
  EXPECT_EQ(totals(with), std::make_pair(60 * MiB, uint64_t{1})) << "the range stays";
}

TEST(Growth, IsRefusedByTheLimitAsAPlainSegment) {
  SimAllocator with(kOn);
  with.set_limit(20 * MiB - 1);
  EXPECT_EQ(with.try_allocate(2 * MiB).status, CACHALOT_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(with.take_calls(), "");
}

TEST(Growth, OfAnOddPageIsADriverError) {
  SimAllocator with("expandable_segments:True,large_segment_size_mb:21");
  const Outcome outcome = with.try_allocate(2 * MiB);
  EXPECT_EQ(outcome.status, CACHALOT_ERROR_DRIVER);
  EXPECT_EQ(outcome.message(), "CUDA driver error: invalid argument");
  with.allocate(1000);
}

// ---- Unmapping [exp 6]

TEST(Unmapping, WaitsForTheSegmentsStream) {
  SimAllocator with(SimSetup{.config = kOn, .capacity = 160 * MiB});
  with.free(with.allocate(30 * MiB, 0x10));
  with.take_calls();
  with.empty_cache();
  EXPECT_EQ(with.take_calls(),
            "stream_sync 10; unmap 0 20M; release; unmap 20M 20M; release; unreserve 0 180M");
}

TEST(Unmapping, OfEverythingGivesTheRangeBack) {
  SimAllocator with(kOn);
  with.cache({20});
  with.watch();
  with.empty_cache();
  EXPECT_EQ(with.take_trace(), "segment_unmap 0 20M");
  EXPECT_EQ(totals(with).second, 0u);
}

TEST(Unmapping, LeavesThePageOfALiveBlock) {
  SimAllocator with(kOn);
  with.allocate(512);
  const cachalot_address rest = with.allocate(MiB);
  with.free(rest);
  with.empty_cache();
  EXPECT_EQ(with.layout(), "0: used 512, free 2096640");
  EXPECT_EQ(with.stats().num_device_free, 0);
}

TEST(Unmapping, ComesAfterThePlainSegmentsOfThePool) {
  SimAllocator with(kOn);
  with.cache({20});
  with.configure("expandable_segments:False");
  with.cache({20});
  with.watch();
  with.empty_cache();
  EXPECT_EQ(with.take_trace(), "segment_free 92160M 20M; segment_unmap 0 20M");
}

TEST(Unmapping, WorksWhileTheOptionIsOff) {
  SimAllocator with(SimSetup{.config = kOn, .capacity = 60 * MiB});
  with.cache({40});
  with.configure("expandable_segments:False");
  with.allocate(60 * MiB);
  EXPECT_EQ(with.stats().num_alloc_retries, 1);
}

// ---- Interplay [exp 8]

TEST(ExpandableSegments, AreListedInTheOrderOfTheirCreationWithoutTheDefaultStream) {
  SimAllocator with(kOn);
  with.allocate(2 * MiB);
  with.allocate(2 * MiB, 0x20);
  with.allocate(1000, 0x10);
  with.allocate(30 * MiB, 0x20);
  cachalot_expandable_segment rows[4] = {};
  size_t count = 0;
  with.ok(cachalot_expandable_segments(with.get(), 0, rows, 4, &count, with.error()));
  ASSERT_EQ(count, 2u);
  EXPECT_EQ(rows[0].stream, 0x20u);
  EXPECT_EQ(rows[0].mapped_size, 40 * MiB);
  EXPECT_EQ(rows[0].is_small, 0);
  EXPECT_EQ(rows[1].stream, 0x10u);
  EXPECT_EQ(rows[1].mapped_size, 2 * MiB);
  EXPECT_EQ(rows[1].is_small, 1);
}

TEST(ExpandableSegments, HaveNoBaseAllocation) {
  SimAllocator with(kOn);
  const cachalot_address block = with.allocate(2 * MiB);
  cachalot_address base = 0;
  uint64_t size = 0;
  EXPECT_EQ(with.refused(cachalot_base_allocation(with.get(), block, &base, &size, with.error()),
                         CACHALOT_ERROR_INVALID_STATE),
            "Tensors allocated with expandable_segments:True cannot be shared between processes. "
            "Consider using expandable_segments:False in data loading workers via "
            "torch.cuda.memory._set_allocator_settings('expandable_segments:False')");
}

TEST(ExpandableSegments, ShowInThePoolsSnapshotOnlyFromAMappedHeadOn) {
  SimAllocator with(kOn);
  with.begin_pool(kPool);
  const cachalot_address head = with.allocate(20 * MiB);
  with.allocate(20 * MiB);
  with.leave_pool(kPool);
  EXPECT_EQ(with.layout(kPool), "0: used 20M, used 20M");
  with.free(head);
  with.empty_cache();  // the pool's use count is 0
  EXPECT_EQ(with.layout(kPool), "");
  EXPECT_EQ(with.layout(), "20M: used 20M");
}

TEST(ExpandableSegments, CountOversizeBlocksButNoOversizeSegments) {
  SimAllocator with("expandable_segments:True,max_split_size_mb:40");
  with.allocate(40 * MiB);
  EXPECT_EQ(with.stats().oversize_allocations.current, 1);
  EXPECT_EQ(with.stats().oversize_segments.current, 0);
}

TEST(PeerAccess, IsGivenToPresentAndFutureRanges) {
  SimAllocator with(SimSetup{.config = kOn, .device_count = 2});
  std::vector<cachalot_address> pages;
  for (int i = 0; i < 3; i++) pages.push_back(with.allocate(20 * MiB));
  with.free(pages[1]);
  with.empty_cache();
  with.take_calls();
  with.ok(cachalot_enable_peer_access(with.get(), 1, 0, with.error()));
  EXPECT_EQ(with.take_calls(), "peer_access 1 0; access 0 20M device 1; access 40M 20M device 1");
  with.allocate(20 * MiB);
  EXPECT_EQ(with.take_calls(),
            "create 20M; map 20M 20M; access 20M 20M device 0; access 20M 20M device 1");
  with.ok(cachalot_enable_peer_access(with.get(), 1, 0, with.error()));
  EXPECT_EQ(with.take_calls(), "peer_access 1 0") << "access is set once";
}

// ---- Reserves (R34, R35, R65 to R68)

struct ReserveOf {
  int32_t has;
  int32_t known;
  uint64_t segment;
};

ReserveOf reserve_of(SimAllocator& with, const char* name) {
  cachalot_reserve reserve = {};
  reserve.struct_size = sizeof reserve;
  with.ok(cachalot_get_reserve(with.get(), 0, name, &reserve, with.error()));
  return {reserve.has_reserve, reserve.is_class_known, reserve.segment_bytes};
}

void set_class(SimAllocator& with, cachalot_stream stream, const char* name) {
  with.ok(cachalot_set_reserve_class(with.get(), stream, name, with.error()));
}

TEST(Reserve, OfAFractionOrOfGigabytesSizesNewSegments) {
  SimAllocator with(SimSetup{.config = "expandable_segments:True,expandable_segments_reserve:0.5",
                             .capacity = 8 * GiB});
  with.allocate(2 * MiB);
  EXPECT_EQ(totals(with).first, 4100 * MiB) << "4 GiB in pages of 20 MiB";
  with.configure("expandable_segments_reserve:1G");
  with.allocate(2 * MiB, 0x10);
  EXPECT_EQ(totals(with).first, (4100 + 1040) * MiB);
  with.allocate(1000);
  EXPECT_EQ(totals(with).first, (4100 + 1040 + 1024) * MiB) << "1 GiB in pages of 2 MiB";
}

TEST(Reserve, IsAtMostNineEighthsOfTheDevice) {
  SimAllocator with(SimSetup{.config = "expandable_segments:True,expandable_segments_reserve:100G",
                             .capacity = 8 * GiB});
  EXPECT_EQ(reserve_of(with, nullptr).segment, 9 * GiB);
}

TEST(Reserve, OfAClassComesBeforeThatOfAll) {
  SimAllocator with(SimSetup{.config = "expandable_segments:True,expandable_segments_reserve:0.5,"
                                       "expandable_segments_reserve_by_class:[a:1G,b:0.25]",
                             .capacity = 8 * GiB});
  EXPECT_EQ(reserve_of(with, "a").segment, GiB);
  EXPECT_EQ(reserve_of(with, "b").segment, 2 * GiB);
  EXPECT_EQ(reserve_of(with, "c").segment, 4 * GiB);
  EXPECT_EQ(reserve_of(with, "c").known, 0);
  EXPECT_EQ(reserve_of(with, "").segment, 4 * GiB);
  set_class(with, 0x10, "a");
  with.allocate(2 * MiB, 0x10);
  EXPECT_EQ(totals(with).first, 1040 * MiB);
}

TEST(Reserve, ByClassIsReplacedAsAWhole) {
  SimAllocator with("expandable_segments_reserve_by_class:[a:1G,b:2G]");
  with.configure("expandable_segments_reserve_by_class:[c:3G]");
  EXPECT_EQ(reserve_of(with, "a").known, 0);
  EXPECT_EQ(reserve_of(with, "c").segment, 3 * GiB);
  with.configure("expandable_segments:True");
  EXPECT_EQ(reserve_of(with, "c").known, 1) << "a string that does not name it keeps it";
  with.configure("expandable_segments_reserve_by_class:[]");
  EXPECT_EQ(reserve_of(with, "c").has, 0);
}

TEST(Reserve, OfAnUnknownClassWarnsOnce) {
  SimAllocator with("expandable_segments:True,expandable_segments_reserve:0.5");
  set_class(with, 0x10, "other");
  set_class(with, 0x20, "other");
  with.allocate(2 * MiB, 0x10);
  with.allocate(2 * MiB, 0x20);
  EXPECT_EQ(with.take_log(),
            "expandable_segments reserve class 'other' has no configured reserve in "
            "expandable_segments_reserve_by_class; using the default reserve.");
}

TEST(Reserve, WithAWrongValueWarnsAndKeepsTheOldOne) {
  SimAllocator with("expandable_segments_reserve:1G");
  for (const std::string value : {"abc", "0", "-1", "nan", "inf", "0x10", "1e400", "1Gb", "G"}) {
    with.configure("expandable_segments_reserve:" + value);
    EXPECT_EQ(with.take_log(),
              "Ignoring invalid expandable-segment reserve value '" + value +
                  "' in PYTORCH_CUDA_ALLOC_CONF (expected a positive, finite fraction like 0.5 or "
                  "an absolute size like 40G); using default.");
    EXPECT_EQ(reserve_of(with, nullptr).segment, GiB);
  }
}

TEST(Reserve, ReadsFractionsInAllTheirForms) {
  const std::pair<const char*, uint64_t> cases[] = {{"0.5", 4 * GiB},  {".5", 4 * GiB},
                                                    {"5e-1", 4 * GiB}, {"+0.5", 4 * GiB},
                                                    {"1.", 8 * GiB},   {"0.5g", 512 * MiB}};
  for (const auto& [value, expected] : cases) {
    SimAllocator with(SimSetup{.config = std::string("expandable_segments_reserve:") + value,
                               .capacity = 8 * GiB});
    EXPECT_EQ(reserve_of(with, nullptr).segment, expected) << value;
    EXPECT_EQ(with.take_log(), "");
  }
}

TEST(Reserve, ThatIsTooSmallFailsTheRequestAndDropsTheSegment) {
  SimAllocator with(SimSetup{.config = "expandable_segments:True,expandable_segments_reserve:0.1",
                             .capacity = 400 * MiB});
  with.watch();
  EXPECT_EQ(with.try_allocate(50 * MiB).status, CACHALOT_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(with.take_calls(), "reserve 40M 0; unreserve 0 40M; reserve 40M 0; unreserve 0 40M");
  EXPECT_EQ(with.take_trace(), "oom 400M 50M");
  EXPECT_EQ(totals(with).second, 0u);
  with.allocate(40 * MiB);
}

TEST(Reserve, LetsAStreamHaveSeveralSegments) {
  SimAllocator with(SimSetup{.config = "expandable_segments:True,expandable_segments_reserve:0.1",
                             .capacity = 400 * MiB});
  with.allocate(40 * MiB);
  with.allocate(40 * MiB);
  EXPECT_EQ(totals(with), std::make_pair(80 * MiB, uint64_t{2}));
  EXPECT_EQ(with.layout(), "0: used 40M | 40M: used 40M");
}

TEST(Segment, ForMoreThanNineEighthsOfTheDeviceIsGivenUpAtOnceIn215) {
  for (const int32_t release : kReleases) {
    SimAllocator with(SimSetup{.config = kOn, .release = release, .capacity = 80 * MiB});
    EXPECT_EQ(with.try_allocate(110 * MiB).status, CACHALOT_ERROR_OUT_OF_MEMORY);
    const bool is_old = release == CACHALOT_RELEASE_2_11;
    EXPECT_EQ(with.take_calls().find("create") != std::string::npos, is_old);
    EXPECT_EQ(totals(with).second, is_old ? 2u : 0u) << "the range of each attempt stayed in 2.11";
  }
}

TEST(DefaultReserve, CountsWhereNoOptionNamesOne) {
  SimAllocator with(SimSetup{.capacity = 8 * GiB});
  with.ok(cachalot_set_default_reserve(with.get(), "a", 0.5, with.error()));
  EXPECT_EQ(reserve_of(with, "a").segment, 4 * GiB);
  with.ok(cachalot_set_default_reserve(with.get(), "a", 0.25, with.error()));
  EXPECT_EQ(reserve_of(with, "a").segment, 4 * GiB) << "the class has an entry by now";
  with.configure("expandable_segments_reserve:1G");
  with.ok(cachalot_set_default_reserve(with.get(), "b", 0.5, with.error()));
  EXPECT_EQ(reserve_of(with, "b").known, 0);
}

// ---- Handle types [exp 7.2, R60]

class HandleTypes {
 public:
  HandleTypes(int32_t release, int32_t fabric_state, int32_t create_code)
      : with(SimSetup{.config = kOn, .release = release}) {
    with.ok(cachalot_sim_set_fabric(with.driver(), 0, fabric_state, create_code, with.error()));
    with.ok(cachalot_sim_log_calls(with.driver(), CACHALOT_SIM_LOG_CALLS | CACHALOT_SIM_LOG_HANDLES,
                                   with.error()));
  }

  // What the driver is asked for up to the first mapping.
  std::string asked() {
    with.try_allocate(2 * MiB);
    std::string calls = with.take_calls();
    calls = calls.substr(0, calls.find("; map"));
    const size_t first = calls.find("handle");
    return first == std::string::npos ? calls : calls.substr(first);
  }

  SimAllocator with;
};

TEST(FabricTrial, IsMadeOnceWhereTheDeviceIsPartOfAFabric) {
  HandleTypes handles(CACHALOT_RELEASE_2_15, 1, 0);
  EXPECT_EQ(handles.asked(),
            "handle type 8 rdma 0 device 0; create 2M; export type 8; import type 8; release; "
            "release; handle type 8 rdma 1 device 0; create 20M");
  handles.with.allocate(20 * MiB);
  EXPECT_EQ(handles.with.take_calls().find("export"), std::string::npos);
}

TEST(FabricTrial, IsNotMadeElsewhere) {
  for (const int32_t state : {0, -1}) {
    HandleTypes handles(CACHALOT_RELEASE_2_15, state, 0);
    EXPECT_EQ(handles.asked(), "handle type 1 rdma 1 device 0; create 20M");
  }
}

TEST(FabricTrial, ThatFailsSettlesDescriptors) {
  HandleTypes handles(CACHALOT_RELEASE_2_15, 1, 801);
  EXPECT_EQ(handles.asked(),
            "handle type 8 rdma 0 device 0; create 2M error 801; handle type 1 rdma 1 device 0; "
            "create 20M");
}

TEST(FabricTrial, IsTheLastTimeThatAnotherTypeIsTried) {
  HandleTypes handles(CACHALOT_RELEASE_2_15, 0, 0);
  handles.with.fail(CACHALOT_SIM_CALL_CREATE, 800);
  const Outcome outcome = handles.with.try_allocate(2 * MiB);
  EXPECT_EQ(outcome.status, CACHALOT_ERROR_DRIVER);
  EXPECT_EQ(outcome.message(), "CUDA driver error: operation not permitted");
}

TEST(FirstPage, DecidesTheHandleTypeIn211) {
  HandleTypes accepting(CACHALOT_RELEASE_2_11, 0, 0);
  EXPECT_EQ(accepting.asked(), "handle type 8 rdma 1 device 0; create 20M");
  HandleTypes refusing(CACHALOT_RELEASE_2_11, 0, 801);
  EXPECT_EQ(refusing.asked(),
            "handle type 8 rdma 1 device 0; create 20M error 801; "
            "handle type 1 rdma 1 device 0; create 20M");
  refusing.with.fail(CACHALOT_SIM_CALL_CREATE, 800);
  const Outcome outcome = refusing.with.try_allocate(40 * MiB);
  EXPECT_EQ(outcome.message(), "CUDA driver error: operation not permitted")
      << "errors of descriptors are raised";
}

TEST(FirstPage, ThatWasFabricMakesEveryLaterErrorOutOfMemoryIn211) {
  HandleTypes handles(CACHALOT_RELEASE_2_11, 0, 0);
  handles.asked();
  handles.with.fail(CACHALOT_SIM_CALL_CREATE, 800, 0, 2);
  EXPECT_EQ(handles.with.try_allocate(40 * MiB).status, CACHALOT_ERROR_OUT_OF_MEMORY);
}

}  // namespace
}  // namespace cachalot_test
