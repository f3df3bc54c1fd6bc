// SPDX-License-Identifier: MIT OR Apache-2.0
// Which cached block serves a request, and what splitting and merging leave behind
// [core 6, 9, 11, R2, R50, R51].
#include "sim_fixture.h"

namespace cachalot_test {
namespace {

// Two cached segments of 20 MiB: the first one obtained lies at 100 MiB, the second one at 0.
void cache_in_falling_addresses(SimAllocator& with) {
  with.give_addresses({100 * MiB, 0});
  with.cache({20, 20});
}

// ---- Order of the free set [core 6.1, 6.3]

TEST(BestFit, TakesTheSmallestBlockThatIsLargeEnough) {
  SimAllocator with;
  with.cache({60, 30, 40});
  with.watch();
  with.allocate(31 * MiB);
  with.allocate(30 * MiB);
  with.allocate(41 * MiB);
  EXPECT_EQ(with.take_trace(), "alloc 90M 31M; alloc 60M 30M; alloc 0 41M");
}

TEST(BestFit, LooksAtTheRequestsStreamOnly) {
  SimAllocator with;
  with.cache({20});
  with.watch();
  with.allocate(20 * MiB, 0x10);
  EXPECT_EQ(with.take_trace(), "segment_alloc 20M 20M @10; alloc 20M 20M @10");
  with.allocate(20 * MiB);
  EXPECT_EQ(with.take_trace(), "alloc 0 20M");
}

TEST(BestFit, LooksAtTheRequestsPoolOnly) {
  SimAllocator with;
  with.cache({20});
  with.allocate(MiB);
  EXPECT_EQ(with.layout(), "0: free 20M | 20M: used 1M, free 1M");
}

TEST(BestFit, LooksAtTheRequestsDeviceOnly) {
  SimAllocator with(SimSetup{.device_count = 2});
  with.free(with.allocate(20 * MiB, 0, 0));
  with.allocate(20 * MiB, 0, 1);
  EXPECT_EQ(with.reserved(0), 20 * MiB);
  EXPECT_EQ(with.reserved(1), 20 * MiB);
}

TEST(EqualSizes, GoByAddressIn211) {
  SimAllocator with(SimSetup{.release = CACHALOT_RELEASE_2_11});
  cache_in_falling_addresses(with);
  EXPECT_EQ(with.allocate(20 * MiB), kFirstAddress);
}

TEST(EqualSizes, GoToTheSegmentObtainedFirstIn215) {
  SimAllocator with;
  cache_in_falling_addresses(with);
  EXPECT_EQ(with.allocate(20 * MiB), kFirstAddress + 100 * MiB);
}

TEST(EqualSizes, GoToTheLowerAddressWithinASegment) {
  for (const int32_t release : kReleases) {
    SimAllocator with(SimSetup{.release = release});
    std::vector<cachalot_address> blocks;
    for (int i = 0; i < 4; i++) blocks.push_back(with.allocate(5 * MiB));
    with.free(blocks[2]);
    with.free(blocks[0]);
    EXPECT_EQ(with.allocate(5 * MiB), blocks[0]) << release;
  }
}

TEST(EqualSizes, CountASegmentObtainedAgainAsNewEvenAtTheSameAddress) {
  SimAllocator with;
  cache_in_falling_addresses(with);
  const cachalot_address first = with.allocate(20 * MiB);   // at 100 MiB
  const cachalot_address second = with.allocate(20 * MiB);  // at 0
  with.free(first);
  with.empty_cache();
  with.give_addresses({100 * MiB});
  EXPECT_EQ(with.allocate(20 * MiB), first);
  with.free(first);
  with.free(second);
  EXPECT_EQ(with.allocate(20 * MiB), second) << "it is the older segment now";
}

TEST(SegmentNumbers, CountSuccessfulDriverCallsOfBothPools) {
  SimAllocator with;
  with.allocate(1000);
  with.fail_allocations(2);
  EXPECT_EQ(with.try_allocate(20 * MiB).status, CACHALOT_ERROR_OUT_OF_MEMORY);
  with.allocate(20 * MiB);
  with.allocate(20 * MiB);
  const std::vector<int64_t> numbers = with.segment_numbers();
  ASSERT_EQ(numbers.size(), 3u);
  EXPECT_EQ(numbers[1], numbers[0] + 1);
  EXPECT_EQ(numbers[2], numbers[1] + 1);
}

TEST(SegmentNumbers, AreInheritedByEveryPiece) {
  SimAllocator with;
  with.give_addresses({100 * MiB, 0});
  const cachalot_address old = with.allocate(2 * MiB);     // front of the segment at 100 MiB
  const cachalot_address young = with.allocate(20 * MiB);  // at 0
  with.free(young);
  const cachalot_address rest = with.allocate(18 * MiB);
  EXPECT_EQ(rest, old + 2 * MiB);
  with.free(rest);
  with.free(old);  // merged again: 20 MiB in the older segment
  EXPECT_EQ(with.allocate(20 * MiB), old);
}

TEST(LongListsOfEqualSizes, KeepTheirOrder) {
  for (const int32_t release : kReleases) {
    SimAllocator with(SimSetup{.release = release});
    std::vector<cachalot_address> blocks;
    for (int i = 0; i < 200; i++) blocks.push_back(with.allocate(512));
    for (size_t i = 0; i < blocks.size(); i += 2) with.free(blocks[(i * 37) % 200]);
    for (size_t i = 0; i < blocks.size(); i += 2) EXPECT_EQ(with.allocate(512), blocks[i]);
  }
}

// ---- Expandable candidates [core 6.4, 6.5]

// One expandable segment: 2 MiB free | used | 4 MiB free | used | 2 MiB free before the tail.
void free_two_before_the_tail(SimAllocator& with) {
  const cachalot_address a = with.allocate(2 * MiB);
  with.allocate(6 * MiB);
  const cachalot_address c = with.allocate(4 * MiB);
  with.allocate(6 * MiB);
  with.free(a);
  with.free(c);
  ASSERT_EQ(with.layout(), "0: free 2M, used 6M, free 4M, used 6M, free 2M");
}

TEST(ReachOfABlock, DoesNotMatterWhereTheFirstCandidateReachesLess) {
  SimAllocator with("expandable_segments:True");
  free_two_before_the_tail(with);
  with.watch();
  with.allocate(2 * MiB);
  EXPECT_EQ(with.take_trace(), "alloc 0 2M");
}

TEST(ReachOfABlock, KeepsTheBlockBeforeTheTailForGrowth) {
  SimAllocator with("expandable_segments:True");
  free_two_before_the_tail(with);
  with.allocate(2 * MiB);  // the block at 0
  with.watch();
  with.allocate(2 * MiB);
  EXPECT_EQ(with.take_trace(), "alloc 8M 2M") << "the 4 MiB block, not the one before the tail";
}

TEST(ReachOfABlock, StaysWithTheFirstOfEqualOnes) {
  SimAllocator with("expandable_segments:True");
  std::vector<cachalot_address> blocks;
  for (int i = 0; i < 5; i++) blocks.push_back(with.allocate(4 * MiB));
  with.free(blocks[3]);
  with.free(blocks[1]);
  EXPECT_EQ(with.allocate(4 * MiB), blocks[1]);
}

TEST(ReachOfABlock, EndsTheStepsAtABlockOfAPlainSegment) {
  SimAllocator with;
  with.cache({20});
  with.configure("expandable_segments:True");
  const cachalot_address expandable = with.allocate(30 * MiB);  // 10 MiB free before the tail
  with.watch();
  const cachalot_address plain = with.allocate(10 * MiB);
  EXPECT_EQ(with.take_trace(), "alloc 0 10M");
  with.free(plain);
  with.free(expandable);
}

TEST(ExpandableBlocks, AreNotFoundWhileTheOptionIsOff) {
  SimAllocator with("expandable_segments:True");
  with.cache({20});
  with.configure("expandable_segments:False");
  with.watch();
  const cachalot_address plain = with.allocate(20 * MiB);
  EXPECT_EQ(plain, kFirstAddress + 90 * GiB) << "behind the reserved range";
  with.configure("expandable_segments:True");
  EXPECT_EQ(with.allocate(20 * MiB), kFirstAddress);
}

TEST(ExpandableBlocks, ArePassedOverForAPlainBlockBehindThem) {
  SimAllocator with;
  with.cache({40});
  with.configure("expandable_segments:True");
  const cachalot_address block = with.allocate(50 * MiB);
  with.allocate(10 * MiB, 0x10);
  with.free(block);  // 60 MiB before the tail
  with.configure("expandable_segments:False");
  with.watch();
  with.allocate(30 * MiB);
  EXPECT_EQ(with.take_trace(), "alloc 0 30M");
}

TEST(PlainCandidate, IsTakenAsItIsBesideExpandableOnes) {
  SimAllocator with;
  with.cache({20});
  with.configure("expandable_segments:True");
  with.allocate(38 * MiB);  // leaves 2 MiB before the tail
  with.watch();
  with.allocate(5 * MiB);
  EXPECT_EQ(with.take_trace(), "alloc 0 5M");
}

// ---- Handing out and block objects [core 9]

TEST(Split, HandsOutTheFront) {
  SimAllocator with;
  EXPECT_EQ(with.allocate(5 * MiB), kFirstAddress);
  EXPECT_EQ(with.layout(), "0: used 5M, free 15M");
}

TEST(RequestedSize, OfAFreshRemainderIsNothing) {
  SimAllocator with;
  with.allocate(1000);
  EXPECT_EQ(with.requested_sizes(), "0: 1000, 0");
}

TEST(RequestedSize, StaysOnAFreedBlock) {
  SimAllocator with;
  const cachalot_address first = with.allocate(1000);
  with.allocate(2000);
  with.free(first);
  EXPECT_EQ(with.requested_sizes(), "0: 1000, 2000, 0");
}

TEST(RequestedSize, OfARemainderIsThatOfItsEarlierUse) {
  SimAllocator with;
  const cachalot_address block = with.allocate(5000);
  with.allocate(2000);
  with.free(block);
  with.allocate(700);
  EXPECT_EQ(with.layout(), "0: used 1K, free 4K, used 2K, free 2041K");
  EXPECT_EQ(with.requested_sizes(), "0: 700, 5000, 2000, 0");
}

TEST(RequestedSize, OfAMergedBlockIsThatOfTheLastFree) {
  SimAllocator with;
  const cachalot_address first = with.allocate(1000);
  const cachalot_address second = with.allocate(2000);
  const cachalot_address third = with.allocate(3000);
  with.allocate(4000);
  with.free(first);
  with.free(third);
  with.free(second);
  EXPECT_EQ(with.requested_sizes(), "0: 2000, 4000, 0");
}

TEST(RequestedSize, GoesOnWithTheRemainderOfAHitToo) {
  SimAllocator with;
  for (int i = 0; i < 3; i++) with.free(with.allocate(1000));
  with.allocate(3000);
  EXPECT_EQ(with.requested_sizes(), "0: 3000, 1000");
}

// ---- Merging [core 11]

TEST(Merge, TakesTheFreeNeighboursOfBothSides) {
  SimAllocator with;
  const cachalot_address a = with.allocate(5 * MiB);
  const cachalot_address b = with.allocate(5 * MiB);
  with.free(a);
  EXPECT_EQ(with.layout(), "0: free 5M, used 5M, free 10M");
  with.free(b);
  EXPECT_EQ(with.layout(), "0: free 20M");
}

TEST(Merge, LeavesLiveNeighboursAlone) {
  SimAllocator with;
  with.allocate(5 * MiB);
  const cachalot_address b = with.allocate(5 * MiB);
  with.allocate(5 * MiB);
  with.free(b);
  EXPECT_EQ(with.layout(), "0: used 5M, free 5M, used 5M, free 5M");
}

TEST(Merge, WaitsForTheStreamsOfANeighbour) {
  SimAllocator with;
  const cachalot_address a = with.allocate(5 * MiB);
  const cachalot_address b = with.allocate(15 * MiB);
  with.queue_work(0x10);
  with.record_stream(a, 0x10);
  with.free(a);
  with.free(b);
  EXPECT_EQ(with.layout(), "0: pending 5M, free 15M");
  with.finish_work(0x10);
  with.allocate(512);  // sees the event
  EXPECT_EQ(with.layout(), "0: free 20M | 20M: used 512, free 2096640");
}

TEST(Merge, KeepsSegmentsApart) {
  SimAllocator with;
  with.cache({20, 20});
  EXPECT_EQ(with.layout(), "0: free 20M | 20M: free 20M");
  with.allocate(40 * MiB);
  EXPECT_EQ(with.reserved(), 80 * MiB);
}

TEST(InactiveSplit, IsCountedOncePerFreeAsANetChange) {
  SimAllocator with;
  const cachalot_address a = with.allocate(5 * MiB);
  const cachalot_address b = with.allocate(5 * MiB);
  with.allocate(5 * MiB);
  with.free(a);
  const cachalot_stats before = with.stats();
  with.free(b);  // takes 5 MiB in, leaves 10 MiB: one block gone, one come
  const cachalot_stats after = with.stats();
  EXPECT_EQ(after.inactive_split.all.current, before.inactive_split.all.current);
  EXPECT_EQ(after.inactive_split.all.freed, before.inactive_split.all.freed);
  EXPECT_EQ(after.inactive_split_bytes.all.allocated - before.inactive_split_bytes.all.allocated,
            static_cast<int64_t>(5 * MiB));
  EXPECT_EQ(after.inactive_split_bytes.all.freed, before.inactive_split_bytes.all.freed);
}

TEST(InactiveSplit, LeavesABlockThatIsHandedOutWhole) {
  SimAllocator with;
  with.allocate(15 * MiB);
  EXPECT_EQ(with.stats().inactive_split.all.current, 0);
  const cachalot_address block = with.allocate(8 * MiB);
  EXPECT_EQ(with.stats().inactive_split_bytes.all.current, static_cast<int64_t>(12 * MiB));
  with.allocate(11 * MiB + 512 * KiB);  // the 12 MiB, slack and all
  EXPECT_EQ(with.stats().inactive_split.all.current, 0);
  EXPECT_EQ(with.stats().inactive_split_bytes.all.current, 0);
  with.free(block);
  EXPECT_EQ(with.stats().inactive_split_bytes.all.current, static_cast<int64_t>(8 * MiB));
}

// ---- Free-memory callbacks [core 8.6]

TEST(FreeMemoryCallback, IsAskedOnAMissAndTheCacheIsSearchedAgain) {
  SimAllocator with;
  struct State {
    SimAllocator* with;
    cachalot_address block;
    int calls;
  } state = {&with, with.allocate(20 * MiB), 0};
  const auto free_one = [](void* user_data, int32_t, uint64_t) -> int32_t {
    auto& s = *static_cast<State*>(user_data);
    s.calls++;
    if (s.block == 0) return 0;
    s.with->free(std::exchange(s.block, 0));
    return 1;
  };
  with.ok(cachalot_register_free_memory_callback(with.get(), free_one, &state, nullptr, nullptr,
                                                 with.error()));
  const cachalot_address expected = state.block;
  EXPECT_EQ(with.allocate(20 * MiB), expected);
  with.allocate(20 * MiB);
  EXPECT_EQ(state.calls, 2);
  EXPECT_EQ(with.reserved(), 40 * MiB);
}

// ---- Allocation at an address (R50, R51)

Outcome allocate_at(SimAllocator& with, uint64_t size, cachalot_address at) {
  cachalot_request request = {};
  request.struct_size = sizeof request;
  request.size = size;
  request.at = at;
  Outcome outcome;
  outcome.status = cachalot_allocate_with(with.get(), &request, &outcome.address, &outcome.error);
  return outcome;
}

TEST(AllocationAtAnAddress, CutsTheBlockAround) {
  SimAllocator with;
  with.cache({20});
  with.watch();
  const cachalot_address at = kFirstAddress + 4 * MiB;
  EXPECT_EQ(allocate_at(with, 2 * MiB, at).address, at);
  EXPECT_EQ(with.take_trace(), "alloc 0 4M; alloc 4M 2M; free_requested 0 4M; free_completed 0 4M");
  EXPECT_EQ(with.layout(), "0: free 4M, used 2M, free 14M");
  EXPECT_EQ(with.stats().active_bytes.all.peak, static_cast<int64_t>(20 * MiB))
      << "the first use of the segment, not this one";
}

TEST(AllocationAtAnAddress, NeverAsksTheDriver) {
  SimAllocator with;
  const cachalot_address block = with.allocate(20 * MiB);
  with.take_calls();
  const Outcome outcome = allocate_at(with, 2 * MiB, block);
  EXPECT_EQ(outcome.status, CACHALOT_ERROR_INVALID_STATE);
  EXPECT_EQ(outcome.message(), "Could not allocate CUDA storage at exact address 0x700000000000");
  EXPECT_EQ(with.take_calls(), "");
  EXPECT_EQ(with.stats().num_ooms, 0);
}

TEST(AllocationAtAnAddress, WantsAMultipleOf512) {
  SimAllocator with;
  const Outcome outcome = allocate_at(with, 2 * MiB, kFirstAddress + 100);
  EXPECT_EQ(outcome.status, CACHALOT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(outcome.message(),
            "mallocWithAddress: addr must be aligned to kMinBlockSize (512 bytes), got "
            "0x700000000064");
}

TEST(AllocationAtAnAddress, LooksInThePoolOfTheSize) {
  SimAllocator with;
  with.cache({20});
  EXPECT_NE(allocate_at(with, 512, kFirstAddress).status, CACHALOT_OK);
  EXPECT_EQ(allocate_at(with, 2 * MiB, kFirstAddress).status, CACHALOT_OK);
}

TEST(AllocationAtAnAddress, OfNoBytesDoesNothing) {
  SimAllocator with;
  const Outcome outcome = allocate_at(with, 0, 100);
  EXPECT_EQ(outcome.status, CACHALOT_OK);
  EXPECT_EQ(outcome.address, 0u);
}

TEST(AllocationAtAnAddress, IsNotIn211) {
  SimAllocator with(SimSetup{.release = CACHALOT_RELEASE_2_11});
  with.cache({20});
  EXPECT_EQ(allocate_at(with, 2 * MiB, kFirstAddress).status, CACHALOT_ERROR_NOT_SUPPORTED);
}

}  // namespace
}  // namespace cachalot_test
