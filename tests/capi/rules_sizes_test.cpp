// SPDX-License-Identifier: MIT OR Apache-2.0
// Sizes: what a request becomes, what is asked from the driver, when a block is cut [core 3 to 7].
#include "sim_fixture.h"

namespace cachalot_test {
namespace {

// What a request of n bytes is rounded to. With expandable segments every remainder is cut off, so
// the block shows it.
uint64_t rounded(uint64_t n, const std::string& divisions) {
  std::string config = "expandable_segments:True";
  if (!divisions.empty()) config += ",roundup_power2_divisions:" + divisions;
  SimAllocator with(config);
  return with.block_size_for(n);
}

// What is asked from the driver for a request of n bytes.
uint64_t segment_for(uint64_t n, const std::string& config = "") {
  SimAllocator with(config);
  with.allocate(n);
  return with.reserved();
}

// ---- Before any pool is looked at [core 3]

TEST(EmptyRequest, GetsNoAddressAndIsNotCounted) {
  SimAllocator with;
  with.watch();
  EXPECT_EQ(with.allocate(0), 0u);
  EXPECT_EQ(with.take_trace(), "");
  EXPECT_EQ(with.take_calls(), "");
  EXPECT_EQ(with.stats().allocation.all.allocated, 0);
}

TEST(HugeRequest, OfTwoToThe60BytesFailsAtOnce) {
  SimAllocator with;
  with.watch();
  for (const uint64_t size : {uint64_t{1u} << 60, UINT64_MAX}) {
    const Outcome outcome = with.try_allocate(size);
    EXPECT_EQ(outcome.status, CACHALOT_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(outcome.message(), "CUDA out of memory. Tried to allocate more than 1EB memory.");
  }
  EXPECT_EQ(with.take_trace(), "");
  EXPECT_EQ(with.take_calls(), "");
  EXPECT_EQ(with.stats().num_ooms, 0);
}

TEST(HugeRequest, OfOneByteLessGoesTheUsualWay) {
  SimAllocator with;
  const Outcome outcome = with.try_allocate((uint64_t{1} << 60) - 1);
  EXPECT_EQ(outcome.status, CACHALOT_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(outcome.error.segment_size, uint64_t{1} << 60);
  EXPECT_EQ(with.stats().num_ooms, 1);
}

TEST(Free, OfAddressZeroDoesNothing) {
  SimAllocator with;
  with.free(0);
  EXPECT_EQ(with.stats().allocation.all.freed, 0);
}

TEST(Free, OfWhatIsNotLiveNamesTheAddress) {
  SimAllocator with;
  const cachalot_address block = with.allocate(1000);
  const auto refused = [&](cachalot_address address) {
    return with.refused(cachalot_free(with.get(), address, with.error()),
                        CACHALOT_ERROR_INVALID_ARGUMENT);
  };
  EXPECT_EQ(refused(block + 512), "invalid device pointer: 0x700000000200");
  EXPECT_EQ(refused(0xabc), "invalid device pointer: 0xabc");
  with.free(block);
  EXPECT_EQ(refused(block), "invalid device pointer: 0x700000000000");
}

// ---- Rounding [core 4]

TEST(RoundSize, IsAtLeast512) {
  for (const uint64_t n : {1u, 511u, 512u}) EXPECT_EQ(rounded(n, ""), 512u) << n;
}

TEST(RoundSize, GoesUpToAMultipleOf512) {
  EXPECT_EQ(rounded(513, ""), 1024u);
  EXPECT_EQ(rounded(1000, ""), 1024u);
  EXPECT_EQ(rounded(MiB + 1, ""), MiB + 512);
  EXPECT_EQ(rounded(84 * MiB, ""), 84 * MiB);
}

TEST(RoundSize, ByOneNumberOfDivisionsActsOnEverySize) {
  EXPECT_EQ(rounded(2049, "4"), 2560u);
  EXPECT_EQ(rounded(5000000, "4"), 5242880u);
  EXPECT_EQ(rounded(84 * MiB, "4"), 96 * MiB);
  EXPECT_EQ(rounded(33 * GiB, "4"), 40 * GiB);
}

TEST(RoundSize, ByDivisionsLeavesStepsAlone) {
  EXPECT_EQ(rounded(5 * MiB, "4"), 5 * MiB);
  EXPECT_EQ(rounded(5 * MiB + 1, "4"), 6 * MiB);
  EXPECT_EQ(rounded(8 * MiB - 1, "4"), 8 * MiB);
}

TEST(RoundSize, ByDivisionsNeedsMoreThan512BytesADivision) {
  EXPECT_EQ(rounded(600, "4"), 1024u);
  EXPECT_EQ(rounded(1200, "4"), 1536u);
  EXPECT_EQ(rounded(2048, "4"), 2048u);
  EXPECT_EQ(rounded(2049, "4"), 2560u);
}

TEST(RoundSize, ByDivisionsLeavesPowersOfTwoAlone) {
  for (const uint64_t n : {4u * KiB, 64u * KiB, MiB, 32u * MiB}) EXPECT_EQ(rounded(n, "2"), n);
}

TEST(RoundSize, ByOneDivisionIsPlainRounding) {
  EXPECT_EQ(rounded(84 * MiB, "1"), 84 * MiB);
  EXPECT_EQ(rounded(5000000, "1"), 5000192u);
}

TEST(RoundSize, ByAListTakesTheEntryOfTheSizesPowerOfTwo) {
  const char* list = "[256:1,512:2,1024:4,>:8]";
  EXPECT_EQ(rounded(200 * MiB, list), 200 * MiB);
  EXPECT_EQ(rounded(400 * MiB, list), 400 * MiB);
  EXPECT_EQ(rounded(600 * MiB, list), 768 * MiB);
  EXPECT_EQ(rounded(1100 * MiB, list), 1280 * MiB);
  EXPECT_EQ(rounded(2500 * MiB, list), 2560 * MiB);
}

TEST(RoundSize, ByAListServesSmallerSizesByItsFirstEntry) {
  EXPECT_EQ(rounded(84 * MiB, "[64:8,128:2,256:2,512:2,1024:1,>:1]"), 88 * MiB);
  EXPECT_EQ(rounded(5000000, "[64:8,128:2]"), 5242880u);
  EXPECT_EQ(rounded(400 * MiB, "[64:8,128:2,256:2]"), 512 * MiB);
}

TEST(RoundSize, ByAListLeavesGapsAlone) {
  const char* list = "[64:8,256:4]";
  EXPECT_EQ(rounded(129 * MiB, list), 129 * MiB);
  EXPECT_EQ(rounded(257 * MiB, list), 320 * MiB);
  EXPECT_EQ(rounded(513 * MiB, list), 513 * MiB);
}

TEST(RoundSize, ByAListChoosesTheEntryByTheSizeAsAsked) {
  EXPECT_EQ(rounded(2 * MiB - 1, "[1:2,2:8]"), 2 * MiB);
  EXPECT_EQ(rounded(2 * MiB + 1, "[1:2,2:8]"), 2 * MiB + 256 * KiB);
  EXPECT_EQ(rounded(64 * MiB - 1, "[32:1,64:2]"), 64 * MiB);
}

TEST(RoundSize, ByDivisionsThatOverflowDoublesToThePowerOfTwo) {
  const char* divisions = "36028797018963968";  // 2^55: 512 * 2^55 is 0 in 64 bits
  EXPECT_EQ(rounded(600, divisions), 1024u);
  EXPECT_EQ(rounded(5000, divisions), 8192u);
  EXPECT_EQ(rounded(4096, divisions), 4096u);
}

// ---- Pools and segments [core 5]

TEST(PoolOfASize, IsTheSmallOneUpToOneMiB) {
  SimAllocator with;
  with.allocate(MiB);
  EXPECT_EQ(with.stats().allocation.small_pool.current, 1);
  with.allocate(MiB + 1);
  EXPECT_EQ(with.stats().allocation.large_pool.current, 1);
}

TEST(PoolOfASize, IsChosenByTheRoundedSize) {
  SimAllocator with("roundup_power2_divisions:2");
  with.allocate(MiB + 1);
  EXPECT_EQ(with.stats().allocation.large_pool.current, 1);
  EXPECT_EQ(segment_for(9 * MiB + 512 * KiB, "roundup_power2_divisions:4"), 10 * MiB);
}

TEST(SegmentSize, IsTwoMiBForTheSmallPool) {
  EXPECT_EQ(segment_for(1), 2 * MiB);
  EXPECT_EQ(segment_for(MiB), 2 * MiB);
}

TEST(SegmentSize, IsTwentyMiBBelowTenMiB) {
  EXPECT_EQ(segment_for(MiB + 1), 20 * MiB);
  EXPECT_EQ(segment_for(10 * MiB - 512), 20 * MiB);
}

TEST(SegmentSize, IsTheRequestRoundedToTwoMiBFromTenMiBOn) {
  EXPECT_EQ(segment_for(10 * MiB), 10 * MiB);
  EXPECT_EQ(segment_for(10 * MiB + 512), 12 * MiB);
  EXPECT_EQ(segment_for(19 * MiB + 512 * KiB), 20 * MiB);
  EXPECT_EQ(segment_for(20 * MiB + 1), 22 * MiB);
}

TEST(LargeSegmentSize, ServesMediumRequestsOnly) {
  const char* config = "large_segment_size_mb:40";
  EXPECT_EQ(segment_for(MiB, config), 2 * MiB);
  EXPECT_EQ(segment_for(MiB + 1, config), 40 * MiB);
  EXPECT_EQ(segment_for(10 * MiB - 512, config), 40 * MiB);
  EXPECT_EQ(segment_for(10 * MiB, config), 10 * MiB);
  EXPECT_EQ(segment_for(10 * MiB + 512, config), 12 * MiB);
}

TEST(LargeSegmentSize, CanBeOddWithoutExpandableSegments) {
  EXPECT_EQ(segment_for(2 * MiB, "large_segment_size_mb:11"), 11 * MiB);
}

TEST(LargeSegmentSize, IsThePageOfNewExpandableSegments) {
  EXPECT_EQ(segment_for(2 * MiB, "large_segment_size_mb:40,expandable_segments:True"), 40 * MiB);
  EXPECT_EQ(segment_for(2000, "large_segment_size_mb:40,expandable_segments:True"), 2 * MiB);

  SimAllocator with("expandable_segments:True");
  with.allocate(2 * MiB);
  with.configure("large_segment_size_mb:40");
  with.allocate(20 * MiB);
  EXPECT_EQ(with.reserved(), 40 * MiB) << "an existing segment keeps its page";
  with.allocate(2 * MiB, 0x10);
  EXPECT_EQ(with.reserved(), 80 * MiB);
}

TEST(LargeSegmentSize, IsTheLeastForTheSplitLimits) {
  SimAllocator with;
  const auto refused = [&](const char* config) {
    return with.refused(cachalot_configure(with.get(), config, with.error()),
                        CACHALOT_ERROR_INVALID_ARGUMENT);
  };
  EXPECT_EQ(refused("max_split_size_mb:30,large_segment_size_mb:40"),
            "CachingAllocator option max_split_size_mb too small, must be >= 40");
  EXPECT_EQ(refused("max_non_split_rounding_mb:30,large_segment_size_mb:40"),
            "CachingAllocator option max_non_split_rounding_mb too small, must be >= 40");
  EXPECT_EQ(refused("large_segment_size_mb:10"),
            "CachingAllocator option large_segment_size_mb must be > 10 MB");
}

// ---- Oversize rules of the search [core 6.6]

TEST(MaxSplitSize, KeepsLargeBlocksFromSmallerRequests) {
  SimAllocator with("max_split_size_mb:40");
  with.cache({40});
  with.watch();
  with.allocate(40 * MiB - 512);
  EXPECT_EQ(with.take_trace(), "segment_alloc 40M 40M; alloc 40M 41942528");
}

TEST(MaxSplitSize, LeavesSmallerBlocksToAll) {
  SimAllocator with("max_split_size_mb:40");
  with.cache({38});
  with.watch();
  with.allocate(2 * MiB);
  EXPECT_EQ(with.take_trace(), "alloc 0 2M");
}

TEST(MaxSplitSize, LooksAtOneCandidateOnly) {
  SimAllocator with("max_split_size_mb:40");
  const cachalot_address tail = with.allocate(30 * MiB);
  with.cache({40});
  with.free(tail);
  with.allocate(30 * MiB);
  EXPECT_EQ(with.reserved(), 70 * MiB) << "the 30 MiB block comes first";
  with.allocate(32 * MiB);
  EXPECT_EQ(with.reserved(), 102 * MiB) << "the 40 MiB block comes first, and is refused";
}

TEST(MaxNonSplitRounding, BoundsTheWasteOfAnOversizeBlock) {
  for (const uint64_t cached : {58u, 60u}) {
    SimAllocator with("max_split_size_mb:40");
    with.cache({cached});
    with.allocate(40 * MiB);
    EXPECT_EQ(with.reserved(), cached == 58 ? 58 * MiB : 100 * MiB) << cached;
  }
}

TEST(MaxNonSplitRounding, CanBeSet) {
  for (const uint64_t cached : {70u, 72u}) {
    SimAllocator with("max_split_size_mb:40,max_non_split_rounding_mb:32");
    with.cache({cached});
    with.allocate(40 * MiB);
    EXPECT_EQ(with.reserved(), cached == 70 ? 70 * MiB : 112 * MiB) << cached;
  }
}

TEST(MaxNonSplitRounding, IsTheLargeSegmentSizeByDefault) {
  for (const uint64_t cached : {78u, 80u}) {
    SimAllocator with("max_split_size_mb:40,large_segment_size_mb:40");
    with.cache({cached});
    with.allocate(40 * MiB);
    EXPECT_EQ(with.reserved(), cached == 78 ? 78 * MiB : 120 * MiB) << cached;
  }
}

TEST(MaxNonSplitRounding, DoesNothingWithoutASplitLimit) {
  SimAllocator with("max_non_split_rounding_mb:20");
  with.cache({200});
  with.allocate(40 * MiB);
  EXPECT_EQ(with.layout(), "0: used 40M, free 160M");
}

// ---- Splitting [core 7]

TEST(ShouldSplit, CutsASmallBlockWhere512BytesAreLeft) {
  SimAllocator with;
  const cachalot_address exact = with.allocate(512);
  const cachalot_address more = with.allocate(1024);
  with.allocate(512);
  with.free(exact);
  with.free(more);  // now 1536 bytes in one block
  with.allocate(1024);
  EXPECT_EQ(with.layout(), "0: used 1K, free 512, used 512, free 2046K");
}

TEST(ShouldSplit, CutsALargeBlockWhereMoreThanOneMiBIsLeft) {
  SimAllocator with;
  with.allocate(19 * MiB);
  with.allocate(19 * MiB - 512);
  EXPECT_EQ(with.layout(), "0: used 20M | 20M: used 19922432, free 1049088");
}

TEST(ShouldSplit, CountsTheSlackAsAllocated) {
  SimAllocator with;
  with.allocate(19 * MiB + 1);
  EXPECT_EQ(with.stats().allocated_bytes.all.current, static_cast<int64_t>(20 * MiB));
  EXPECT_EQ(with.stats().requested_bytes.all.current, static_cast<int64_t>(19 * MiB + 1));
}

TEST(ShouldSplit, LeavesABlockWholeForARequestOfTheSplitLimit) {
  SimAllocator with("max_split_size_mb:40");
  with.cache({58});
  with.allocate(40 * MiB);
  EXPECT_EQ(with.layout(), "0: used 58M");
  EXPECT_EQ(with.stats().oversize_allocations.current, 1);
  EXPECT_EQ(with.stats().oversize_segments.current, 1);
}

TEST(ShouldSplit, IgnoresTheSplitLimitForExpandableRequests) {
  SimAllocator with("max_split_size_mb:40,expandable_segments:True");
  with.allocate(45 * MiB);
  EXPECT_EQ(with.layout(), "0: used 45M, free 15M");
}

TEST(ShouldSplit, LooksAtTheRequestAndNotAtTheBlock) {
  SimAllocator with;
  with.cache({20});
  with.configure("expandable_segments:True");
  with.allocate(19 * MiB + 512 * KiB);
  EXPECT_EQ(with.layout(), "0: used 19968K, free 512K");
}

TEST(ShouldSplit, NeverCutsBlocksOfANoSplitPool) {
  SimAllocator with;
  const auto pool = SimAllocator::user_pool(1);
  with.create_pool(pool, CACHALOT_POOL_NO_SPLIT);
  with.begin_pool(pool);
  with.allocate(1000);
  with.allocate(4 * MiB);
  with.allocate(4 * MiB);
  EXPECT_EQ(with.layout(), "0: used 2M | 2M: used 20M | 22M: used 20M");
  with.leave_pool(pool);
}

TEST(ShouldSplit, NeverCutsExpandableBlocksOfANoSplitPool) {
  SimAllocator with("expandable_segments:True");
  const auto pool = SimAllocator::user_pool(1);
  with.create_pool(pool, CACHALOT_POOL_NO_SPLIT);
  with.begin_pool(pool);
  with.allocate(4 * MiB);
  EXPECT_EQ(with.layout(), "0: used 20M");
  with.leave_pool(pool);
}

}  // namespace
}  // namespace cachalot_test
