// SPDX-License-Identifier: MIT OR Apache-2.0
// Defects of the reference (docs/differences.md 1 and 2): those that are always mended, with the
// remark that says so, and those that a flag mends, without it and with it.
#include <cstdlib>

#include "sim_fixture.h"

namespace cachalot_test {
namespace {

constexpr cachalot_stream kOther = 0x10;
constexpr cachalot_pool_id kPool = SimAllocator::user_pool(1);
constexpr cachalot_pool_id kGraph = SimAllocator::graph_pool(1);

// One line of the log begins with this.
bool remarks(SimAllocator& with, const std::string& defect) {
  const std::string log = with.take_log();
  EXPECT_TRUE(log.starts_with("differs from PyTorch: " + defect + ": ")) << log;
  return log.find("; ") == std::string::npos;
}

// ---- Always mended

TEST(U1, UsesRecordedInAUserPoolAreWaitedForIn211) {
  SimAllocator with(SimSetup{.release = CACHALOT_RELEASE_2_11});
  with.begin_pool(kPool);
  const cachalot_address block = with.allocate(60 * MiB);
  with.queue_work(kOther);
  with.record_stream(block, kOther);
  with.free(block);
  with.end_pool(kPool);
  EXPECT_EQ(with.take_log(), "") << "nothing is decided yet";
  with.allocate(512);
  EXPECT_TRUE(remarks(with, "U1"));
  with.begin_pool(SimAllocator::user_pool(2));
  with.leave_pool(SimAllocator::user_pool(2));
  EXPECT_EQ(with.stats().active.large_pool.current, 1) << "its stream still works";
  with.finish_work(kOther);
  with.allocate(512);
  EXPECT_EQ(with.stats().active.large_pool.current, 0);
  with.release_pool(kPool);
}

TEST(U1, AUseBeforeACaptureIsWaitedForThoughItIsRecordedAgainInsideIt) {
  for (const int32_t release : kReleases) {
    SimAllocator with(SimSetup{.release = release});
    const cachalot_address block = with.allocate(30 * MiB);
    with.queue_work(kOther);
    with.record_stream(block, kOther);
    with.begin_capture(kGraph, 0, 1);
    with.record_stream(block, kOther);
    with.free(block);
    with.end_capture(kGraph, 1);
    EXPECT_NE(with.allocate(30 * MiB), block);
    EXPECT_TRUE(remarks(with, "U1"));
    with.finish_work(kOther);
    EXPECT_EQ(with.allocate(30 * MiB), block);
  }
}

TEST(U1, AUseByACapturedStreamIsForgottenWithoutARemark) {
  SimAllocator with;
  with.begin_capture(kGraph, 0, 1);
  with.ok(cachalot_sim_fork_capture(with.driver(), 0, 0, kOther, with.error()));
  const cachalot_address block = with.allocate(30 * MiB);
  with.record_stream(block, kOther);
  with.free(block);
  with.end_capture(kGraph, 1);
  with.allocate(512);
  EXPECT_EQ(with.stats().active.large_pool.current, 0);
  EXPECT_EQ(with.take_log(), "");
}

TEST(U2, ACaptureOfAnEarlierLifeHidesNoUseIn211) {
  SimAllocator with(SimSetup{.release = CACHALOT_RELEASE_2_11});
  with.begin_pool(kPool, CACHALOT_ROUTE_NONE);
  const cachalot_address block = with.allocate(60 * MiB);
  with.record_stream(block, kOther);
  with.end_pool(kPool);
  with.free(block);
  with.allocate(512);
  ASSERT_EQ(with.allocate(60 * MiB), block);
  with.queue_work(kOther);
  with.record_stream(block, kOther);
  with.begin_pool(SimAllocator::user_pool(2), CACHALOT_ROUTE_NONE);
  with.free(block);
  with.end_pool(SimAllocator::user_pool(2));
  EXPECT_NE(with.allocate(60 * MiB), block);
  EXPECT_TRUE(remarks(with, "U2"));
}

TEST(U2, ACaptureOfAnEarlierLifeHidesNoUseIn215) {
  SimAllocator with;
  with.begin_capture(kGraph, 0, 1);
  const cachalot_address block = with.allocate(30 * MiB);
  with.record_stream(block, kOther);
  with.end_capture(kGraph, 1);
  with.free(block);
  with.allocate(512);
  with.begin_pool(kGraph, CACHALOT_ROUTE_STREAM, 0);
  ASSERT_EQ(with.allocate(30 * MiB), block);
  with.queue_work(kOther);
  with.record_stream(block, kOther);
  with.end_pool(kGraph);
  with.begin_capture(kGraph, 0, 2);
  with.free(block);
  with.end_capture(kGraph, 2);
  with.begin_pool(kGraph, CACHALOT_ROUTE_STREAM, 0);
  EXPECT_NE(with.allocate(30 * MiB), block);
  EXPECT_TRUE(remarks(with, "U2"));
  with.end_pool(kGraph);
}

// No remark, since following such marks would make the calls of programs with graphs slower.
TEST(U2, ACapturedStreamOfAnEarlierLifeHidesNoUseWithoutARemark) {
  for (const int32_t release : kReleases) {
    SimAllocator with(SimSetup{.release = release});
    const cachalot_address block = with.allocate(30 * MiB);
    with.begin_capture(kGraph, 0, 1);
    with.ok(cachalot_sim_fork_capture(with.driver(), 0, 0, kOther, with.error()));
    with.record_stream(block, kOther);
    with.end_capture(kGraph, 1);
    with.free(block);
    with.allocate(512);
    ASSERT_EQ(with.allocate(30 * MiB), block);
    with.queue_work(kOther);
    with.record_stream(block, kOther);
    with.begin_capture(kGraph, 0, 2);
    with.free(block);
    with.end_capture(kGraph, 2);
    EXPECT_NE(with.allocate(30 * MiB), block) << "its stream still works";
    EXPECT_EQ(with.take_log(), "");
    with.finish_work(kOther);
    EXPECT_EQ(with.allocate(30 * MiB), block);
  }
}

// Whether the reference's mark falls on the second block depends on the heap of the process.
TEST(U2, AMarkOfABlockThatIsGoneHidesNoUseOfANewBlockWithoutARemark) {
  SimAllocator with(SimSetup{.release = CACHALOT_RELEASE_2_11});
  const cachalot_address gone = with.allocate(30 * MiB);
  with.begin_pool(kPool, CACHALOT_ROUTE_NONE);
  with.record_stream(gone, kOther);
  with.end_pool(kPool);
  with.free(gone);
  with.allocate(512);
  with.empty_cache();
  const cachalot_address block = with.allocate(60 * MiB);
  with.queue_work(kOther);
  with.record_stream(block, kOther);
  with.begin_pool(SimAllocator::user_pool(2), CACHALOT_ROUTE_NONE);
  with.free(block);
  with.end_pool(SimAllocator::user_pool(2));
  EXPECT_NE(with.allocate(60 * MiB), block) << "its stream still works";
  EXPECT_EQ(with.take_log(), "");
  with.finish_work(kOther);
  EXPECT_EQ(with.allocate(60 * MiB), block);
}

TEST(U3, AFreePieceOfASegmentIsNotReleasedAsIfItWereOne) {
  for (const int32_t release : kReleases) {
    SimAllocator with(SimSetup{.release = release, .capacity = 600 * MiB});
    with.cache({200});
    const cachalot_address front = with.allocate(40 * MiB);
    const cachalot_address back = with.allocate(40 * MiB);
    with.free(front);
    with.configure("max_split_size_mb:40");
    with.fail_allocations();
    with.watch();
    with.allocate(400 * MiB);
    EXPECT_EQ(with.take_trace(), "segment_alloc 200M 400M; alloc 200M 400M");
    EXPECT_TRUE(with.take_log().starts_with("differs from PyTorch: U3: "));
    EXPECT_EQ(with.stats().num_device_free, 0);
    EXPECT_EQ(with.layout(), "0: free 40M, used 40M, free 120M | 200M: used 400M");
    with.free(back);
  }
}

// One growth of 60 MiB in the pool, cut into two live blocks.
struct CutGrowth {
  explicit CutGrowth(SimAllocator& with) {
    with.create_pool(kPool);
    with.begin_pool(kPool);
    with.free(with.allocate(60 * MiB));
    first = with.allocate(20 * MiB);
    second = with.allocate(40 * MiB);
    with.leave_pool(kPool);
    with.release_pool(kPool);
  }
  cachalot_address first;
  cachalot_address second;
};

TEST(U4, APoolIsNotDestroyedUnderALiveBlock) {
  for (const int32_t release : kReleases) {
    SimAllocator with(SimSetup{.config = "expandable_segments:True", .release = release});
    const CutGrowth blocks(with);
    with.free(blocks.first);
    with.empty_pool(kPool);
    EXPECT_TRUE(remarks(with, "U4"));
    EXPECT_EQ(with.layout(), "20M: used 40M");
    EXPECT_EQ(with.block(blocks.second).pool.second, 1u);
    with.free(blocks.second);
    with.empty_pool(kPool);
    EXPECT_EQ(with.layout(), "");
    with.take_log();
    with.create_pool(kPool);
    EXPECT_EQ(with.use_count(kPool), 1) << "the old pool has gone";
  }
}

TEST(U4, UnmappingMorePiecesThanThereWereGrowthsDoesNotFail) {
  for (const int32_t release : kReleases) {
    SimAllocator with(SimSetup{.config = "expandable_segments:True", .release = release});
    const auto pool = kPool;
    with.create_pool(pool);
    with.begin_pool(pool);
    with.free(with.allocate(60 * MiB));
    const cachalot_address first = with.allocate(20 * MiB);
    const cachalot_address second = with.allocate(20 * MiB);
    with.free(first);
    with.leave_pool(pool);
    with.release_pool(pool);
    with.empty_pool(pool);  // 0-20 and 40-60 MiB are free: two pieces of one growth
    EXPECT_TRUE(with.take_log().starts_with("differs from PyTorch: U4: "));
    EXPECT_EQ(with.layout(), "20M: used 20M");
    EXPECT_EQ(with.stats().num_device_free, 2);
    with.free(second);
    with.empty_pool(pool);
    EXPECT_EQ(with.reserved(), 0u);
  }
}

// A pool that was released while this thread's requests are still routed to it.
void release_under_routing(SimAllocator& with) {
  with.create_pool(kPool);
  with.begin_pool(kPool);
  with.release_pool(kPool);
  with.release_pool(kPool);
}

TEST(U21, APoolIsNotDestroyedUnderItsOwnRequest) {
  SimAllocator with(SimSetup{.capacity = 100 * MiB});
  with.cache({60});
  release_under_routing(with);
  const cachalot_address block = with.allocate(80 * MiB);
  EXPECT_TRUE(remarks(with, "U21"));
  EXPECT_EQ(with.block(block).pool.second, 1u);
  with.ok(cachalot_check(with.get(), with.error()));
  with.end_pool(kPool);
}

TEST(U21, APoolThatWasKeptGoesWithTheNextRelease) {
  SimAllocator with(SimSetup{.capacity = 100 * MiB});
  release_under_routing(with);
  EXPECT_EQ(with.try_allocate(120 * MiB).status, CACHALOT_ERROR_OUT_OF_MEMORY);
  EXPECT_TRUE(remarks(with, "U21"));
  with.end_pool(kPool);
  with.empty_cache();
  EXPECT_EQ(with.take_log(), "");
  with.create_pool(kPool);
  EXPECT_EQ(with.use_count(kPool), 1) << "a new one";
}

TEST(U7, AMalformedStringIsAnErrorOfTheCreation) {
  SimAllocator with;
  for (const char* config :
       {"max_split_size_mb", "max_split_size_mb=40", "expandable_segments:", "foo",
        "garbage_collection_threshold:0,5", "roundup_power2_divisions:[64:8",
        "roundup_power2_divisions:[", "backend:", "expandable_segments_reserve_by_class:[a:1"}) {
    for (const bool in_environment : {false, true}) {
      cachalot_allocator_options options = {};
      options.struct_size = sizeof options;
      options.driver = with.driver();
      options.config = in_environment ? nullptr : config;
      if (in_environment) setenv("CACHALOT_ALLOC_CONF", config, 1);
      cachalot_allocator* made = nullptr;
      const std::string text =
          with.refused(cachalot_allocator_create(&options, &made, with.error()),
                       CACHALOT_ERROR_INVALID_ARGUMENT);
      unsetenv("CACHALOT_ALLOC_CONF");
      EXPECT_TRUE(text.starts_with("The option string ends too early")) << config << ": " << text;
      EXPECT_EQ(made, nullptr);
    }
  }
}

TEST(U8, PagesBeforeOneThatCannotBeMadeAreReleased) {
  for (const int32_t release : kReleases) {
    SimAllocator with(SimSetup{.config = "expandable_segments:True", .release = release});
    with.ok(cachalot_sim_set_fabric(with.driver(), 0, 0, 801, with.error()));  // so: descriptors
    with.allocate(20 * MiB);
    with.fail(CACHALOT_SIM_CALL_CREATE, 1, 1);
    with.take_calls();
    EXPECT_EQ(with.try_allocate(40 * MiB).message(), "CUDA driver error: invalid argument");
    EXPECT_EQ(with.take_calls(), "create 20M; create 20M error 1; release");
    EXPECT_TRUE(remarks(with, "U8"));
    with.watch();
    with.allocate(40 * MiB);
    EXPECT_EQ(with.take_trace(), "segment_map 20M 40M; alloc 20M 40M");
  }
}

TEST(U8, AnErrorOfTheFirstPageOfAGrowthIsNoDifference) {
  SimAllocator with("expandable_segments:True");
  with.fail(CACHALOT_SIM_CALL_CREATE, 1);
  EXPECT_EQ(with.try_allocate(40 * MiB).status, CACHALOT_ERROR_DRIVER);
  EXPECT_EQ(with.take_log(), "");
}

// ---- Mended by a flag

// Runs a test without the flag and with it.
template <class Test>
void without_and_with(uint32_t flag, SimSetup setup, Test test) {
  for (const bool mended : {false, true}) {
    setup.mend = mended ? flag : 0;
    SimAllocator with(setup);
    SCOPED_TRACE(mended ? "with the flag" : "without the flag");
    test(with, mended);
    EXPECT_EQ(with.take_log(), "") << "a flag is no surprise";
  }
}

TEST(U5, FallbackFailsOnAPoolThatIsRoutedTo) {
  for (const int32_t release : kReleases) {
    const SimSetup setup{.release = release, .capacity = 100 * MiB};
    without_and_with(CACHALOT_MEND_FALLBACK_ERRORS, setup, [](SimAllocator& with, bool mended) {
      with.cache_in_pool(kPool, {60}, CACHALOT_POOL_USE_ON_OOM);
      with.begin_pool(kPool, CACHALOT_ROUTE_NONE);
      const Outcome outcome = with.try_allocate(60 * MiB);
      if (mended) {
        EXPECT_EQ(outcome.status, CACHALOT_ERROR_OUT_OF_MEMORY);
        EXPECT_EQ(with.use_count(kPool), 2);
      } else {
        EXPECT_EQ(outcome.status, CACHALOT_ERROR_INVALID_STATE);
        EXPECT_EQ(outcome.message(), "beginAllocateToPool: already recording to mempool_id");
        EXPECT_EQ(with.use_count(kPool), 3) << "raised for good";
      }
      with.end_pool(kPool);
    });
  }
}

TEST(U5, FallbackFailsOnAPoolThatWasReleased) {
  const SimSetup setup{.capacity = 100 * MiB};
  without_and_with(CACHALOT_MEND_FALLBACK_ERRORS, setup, [](SimAllocator& with, bool mended) {
    with.cache_in_pool(kPool, {60}, CACHALOT_POOL_USE_ON_OOM);
    with.release_pool(kPool);
    const Outcome outcome = with.try_allocate(60 * MiB);
    EXPECT_EQ(outcome.status, mended ? CACHALOT_OK : CACHALOT_ERROR_INVALID_STATE)
        << "its memory is given back instead";
  });
}

// The routing that the search of fallback ends settles a free beside the block that was found; the
// reference fails an assertion then.
TEST(U20, FallbackSearchesAgainWhereTheFoundBlockHasMerged) {
  constexpr cachalot_stream kCaptured = 0x10;
  SimAllocator with(
      SimSetup{.config = "graph_capture_record_stream_reuse:True", .capacity = 20 * MiB});
  with.create_pool(kPool, CACHALOT_POOL_USE_ON_OOM);
  with.begin_pool(kPool);
  const cachalot_address found = with.allocate(2 * MiB);
  const cachalot_address neighbour = with.allocate(8 * MiB);
  with.leave_pool(kPool);
  with.begin_capture(kGraph, kCaptured, 1);
  with.ok(
      cachalot_record_stream_on_stream(with.get(), neighbour, kCaptured, kCaptured, with.error()));
  with.ok(cachalot_free_on_stream(with.get(), neighbour, kCaptured, with.error()));
  with.free(found);
  cachalot_request request = {};
  request.struct_size = sizeof request;
  request.size = 2 * MiB;
  request.current_stream = kCaptured;
  request.has_current_stream = 1;
  cachalot_address address = 0;
  with.ok(cachalot_allocate_with(with.get(), &request, &address, with.error()));
  EXPECT_EQ(address, found);
  EXPECT_EQ(with.block(address).size, 2 * MiB);
  EXPECT_TRUE(remarks(with, "U20"));
  with.ok(cachalot_check(with.get(), with.error()));
  with.end_capture(kGraph, 1);
}

TEST(U6, FallbackNeverFindsExpandableMemory) {
  const SimSetup setup{.config = "expandable_segments:True", .capacity = 100 * MiB};
  without_and_with(CACHALOT_MEND_FALLBACK_EXPANDABLE, setup, [](SimAllocator& with, bool mended) {
    with.cache_in_pool(kPool, {60}, CACHALOT_POOL_USE_ON_OOM);
    with.watch();
    const Outcome outcome = with.try_allocate(50 * MiB);
    EXPECT_EQ(outcome.status, mended ? CACHALOT_OK : CACHALOT_ERROR_OUT_OF_MEMORY);
    if (mended) {
      EXPECT_EQ(with.layout(), "0: used 50M, free 10M");
    }
  });
}

TEST(U8, OutOfMemoryAtTheVeryFirstPageSettlesOnFabricIn211) {
  const SimSetup setup{.config = "expandable_segments:True", .release = CACHALOT_RELEASE_2_11};
  without_and_with(CACHALOT_MEND_HANDLE_TYPE, setup, [](SimAllocator& with, bool mended) {
    with.fail_allocations(2);
    EXPECT_EQ(with.try_allocate(40 * MiB).status, CACHALOT_ERROR_OUT_OF_MEMORY);
    with.ok(cachalot_sim_set_fabric(with.driver(), 0, 0, 801, with.error()));
    EXPECT_EQ(with.try_allocate(40 * MiB).status,
              mended ? CACHALOT_OK : CACHALOT_ERROR_OUT_OF_MEMORY);
  });
}

TEST(U9, WhatBecomesFreeInTheReleaseIsNotSearchedAgain) {
  for (const int32_t release : kReleases) {
    const SimSetup setup{.release = release, .capacity = 100 * MiB};
    without_and_with(
        CACHALOT_MEND_SEARCH_AFTER_RELEASE, setup, [](SimAllocator& with, bool mended) {
          const cachalot_address waiting = with.allocate(58 * MiB);
          with.free(waiting);
          with.allocate(2 * MiB);  // keeps the segment
          const cachalot_address rest = with.allocate(56 * MiB);
          with.record_stream(rest, kOther);
          with.queue_work(kOther);
          with.free(rest);
          const Outcome outcome = with.try_allocate(56 * MiB);
          EXPECT_EQ(outcome.status, mended ? CACHALOT_OK : CACHALOT_ERROR_OUT_OF_MEMORY);
          EXPECT_EQ(with.stats().num_alloc_retries, mended ? 0 : 1);
          if (!mended) {
            EXPECT_EQ(with.allocate(56 * MiB), rest) << "it succeeds when it is repeated";
          }
        });
  }
}

// The sizes of the entries of the ring, oldest first.
std::string ring(SimAllocator& with) {
  cachalot_snapshot* snapshot = with.take_snapshot();
  std::vector<std::string> sizes;
  for (size_t i = 0; i < cachalot_snapshot_entry_count(snapshot, 0); i++) {
    cachalot_trace_entry entry = {};
    entry.struct_size = sizeof entry;
    with.ok(cachalot_snapshot_entry(snapshot, 0, i, &entry));
    sizes.push_back(std::to_string(entry.size));
  }
  cachalot_snapshot_destroy(snapshot);
  return joined(sizes, " ");
}

void set_ring(SimAllocator& with, uint64_t max_entries) {
  cachalot_history_options options = {};
  options.struct_size = sizeof options;
  options.enabled = 1;
  options.max_entries = max_entries;
  options.skip_actions = "snapshot,segment_alloc,free_requested,free_completed";
  with.ok(cachalot_record_history(with.get(), &options, with.error()));
}

TEST(U11, TheRingLosesItsOrderWhenItGrows) {
  without_and_with(CACHALOT_MEND_HISTORY_ORDER, {}, [](SimAllocator& with, bool mended) {
    set_ring(with, 3);
    for (uint64_t size = 1; size <= 4; size++) with.allocate(size);
    EXPECT_EQ(ring(with), "2 3 4");
    set_ring(with, 5);
    with.allocate(5);
    EXPECT_EQ(ring(with), mended ? "2 3 4 5" : "2 3 5 4");
  });
}

TEST(U11, TheRingLosesItsOrderWhenItShrinks) {
  without_and_with(CACHALOT_MEND_HISTORY_ORDER, {}, [](SimAllocator& with, bool mended) {
    set_ring(with, 5);
    for (uint64_t size = 1; size <= 5; size++) with.allocate(size);
    set_ring(with, 2);
    with.allocate(6);
    EXPECT_EQ(ring(with), mended ? "5 6" : "2 3 4 5 6");
  });
}

TEST(U16, ARequestIsRejectedAlthoughTheCacheCouldBeGivenBack) {
  const SimSetup setup{.config = "throw_on_cudamalloc_oom:True", .capacity = 100 * MiB};
  without_and_with(CACHALOT_MEND_REJECTION, setup, [](SimAllocator& with, bool mended) {
    with.cache({60});
    const Outcome outcome = with.try_allocate(80 * MiB);
    EXPECT_EQ(outcome.status, mended ? CACHALOT_OK : CACHALOT_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(with.reserved(), mended ? 80 * MiB : 60 * MiB);
    EXPECT_EQ(with.stats().num_oom_rejections, 1);
  });
}

TEST(U16, ARequestThatStillDoesNotFitIsRejectedWithTheFlagToo) {
  const SimSetup setup{.config = "throw_on_cudamalloc_oom:True", .capacity = 100 * MiB};
  without_and_with(CACHALOT_MEND_REJECTION, setup, [](SimAllocator& with, bool) {
    with.cache({60});
    EXPECT_TRUE(with.try_allocate(120 * MiB).message().starts_with(
        "CUDA out of memory. Allocation was preemptively rejected"));
    EXPECT_EQ(with.stats().num_ooms, 0);
  });
}

TEST(U17, AReserveThatIsTooSmallFailsTheRequestAndEmptiesTheCache) {
  const SimSetup setup{.config = "expandable_segments:True,expandable_segments_reserve:0.1",
                       .capacity = 400 * MiB};
  without_and_with(CACHALOT_MEND_RESERVE, setup, [](SimAllocator& with, bool mended) {
    with.cache({20});
    const Outcome outcome = with.try_allocate(100 * MiB);
    EXPECT_EQ(outcome.status, mended ? CACHALOT_OK : CACHALOT_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(with.reserved(), mended ? 120 * MiB : 0);
  });
}

TEST(U17, ARequestThatNoSegmentCanHoldEmptiesTheCache) {
  const SimSetup setup{.config = "expandable_segments:True", .capacity = 400 * MiB};
  without_and_with(CACHALOT_MEND_RESERVE, setup, [](SimAllocator& with, bool mended) {
    with.cache({20});
    EXPECT_EQ(with.try_allocate(500 * MiB).status, CACHALOT_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(with.reserved(), mended ? 20 * MiB : 0);
  });
}

// The remark about options that are a trap together.
std::string advice(uint64_t limit_mb) {
  return "max_split_size_mb:" + std::to_string(limit_mb) +
         " with expandable_segments:True can reserve memory without bound (PyTorch issue 123548): "
         "leave max_split_size_mb out, or set CACHALOT_MEND_SPLIT_LIMIT";
}

// Two blocks come and go, a small one comes and stays behind them, until so many small ones are live.
void leave_blocks(SimAllocator& with, int64_t count) {
  while (with.stats().active.all.current < count) {
    const cachalot_address first = with.allocate(91 * MiB);
    const cachalot_address second = with.allocate(45 * MiB + MiB / 2);
    with.allocate(2 * MiB);
    with.free(first);
    with.free(second);
  }
}

TEST(U22, ASplitLimitMakesExpandableSegmentsGrowWithoutBound) {
  for (const int32_t release : kReleases) {
    SimSetup setup{.config = "max_split_size_mb:128,expandable_segments:True", .release = release};
    setup.check_every_call = false;
    without_and_with(CACHALOT_MEND_SPLIT_LIMIT, setup, [](SimAllocator& with, bool mended) {
      EXPECT_EQ(with.take_log(), mended ? "" : advice(128));
      for (const int64_t count : {25, 50, 100}) {
        leave_blocks(with, count);
        const int64_t reserved = with.stats().reserved_bytes.all.peak;
        const int64_t requested = with.stats().requested_bytes.all.peak;
        if (mended) {
          EXPECT_LT(reserved, requested + int64_t{20 * MiB}) << "less than a page";
        } else {
          EXPECT_GT(reserved, count * int64_t{130 * MiB}) << "each round obtains pages";
        }
        with.ok(cachalot_check(with.get(), with.error()));
      }
    });
  }
}

// The second half of the rule [core 6.6]: a much larger block does not serve a large request either.
TEST(U22, ALargeRequestIsSplitFromALargerBlockOfPagesWithTheFlag) {
  const SimSetup setup{.config = "max_split_size_mb:64,expandable_segments:True"};
  without_and_with(CACHALOT_MEND_SPLIT_LIMIT, setup, [](SimAllocator& with, bool mended) {
    with.take_log();
    const cachalot_address larger = with.allocate(200 * MiB);
    with.allocate(20 * MiB);  // keeps it away from the end, where it could grow
    with.free(larger);
    with.allocate(80 * MiB);
    EXPECT_EQ(with.reserved(), mended ? 220 * MiB : 300 * MiB);
  });
}

TEST(U22, APlainBlockIsKeptBackWithTheFlagToo) {
  const SimSetup setup{.config = "max_split_size_mb:64"};
  without_and_with(CACHALOT_MEND_SPLIT_LIMIT, setup, [](SimAllocator& with, bool) {
    with.cache({200});
    with.configure("max_split_size_mb:64,expandable_segments:True");
    with.take_log();
    with.allocate(30 * MiB);
    EXPECT_EQ(with.layout(), "0: free 200M | 200M: used 30M, free 10M");
  });
}

// ---- The remark about options that are a trap together (U22)

TEST(SplitLimitAdvice, IsGivenOnceWhenStringsSetBothOptions) {
  SimAllocator with("max_split_size_mb:64");
  EXPECT_EQ(with.take_log(), "") << "one of them is none";
  with.configure("expandable_segments:True");
  EXPECT_EQ(with.take_log(), "") << "the string has reset the other";
  with.configure("max_split_size_mb:32");
  EXPECT_EQ(with.take_log(), advice(32)) << "this one has not";
  with.configure("max_split_size_mb:48,expandable_segments:True");
  EXPECT_EQ(with.take_log(), "");
}

TEST(SplitLimitAdvice, IsGivenWhenNumbersSetBothOptions) {
  SimAllocator with;
  cachalot_settings settings = with.settings();
  settings.max_split_size = 40 * MiB;
  settings.expandable_segments = 1;
  with.ok(cachalot_set_settings(with.get(), &settings, with.error()));
  EXPECT_EQ(with.take_log(), advice(40));
}

TEST(SplitLimitAdvice, IsGivenWhenAStringWithAFaultHasSetBoth) {
  SimAllocator with;
  with.refused(cachalot_configure(with.get(),
                                  "max_split_size_mb:24,expandable_segments:True,no_such_option:1",
                                  with.error()),
               CACHALOT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(with.take_log(), advice(24));
}

TEST(SplitLimitAdvice, IsNotGivenForWhatTheAsyncBackendIgnores) {
  SimAllocator with("backend:cudaMallocAsync,max_split_size_mb:24,expandable_segments:True");
  with.settings();
  EXPECT_EQ(with.take_log().find("without bound"), std::string::npos);
}

}  // namespace
}  // namespace cachalot_test
