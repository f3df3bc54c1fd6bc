// SPDX-License-Identifier: MIT OR Apache-2.0
// Blocks that other streams use: events, deferred frees, captures [core 10, 12, 18, R10 to R21].
#include "sim_fixture.h"

namespace cachalot_test {
namespace {

constexpr cachalot_stream kOther = 0x10;
constexpr cachalot_stream kThird = 0x20;
constexpr cachalot_pool_id kGraph = SimAllocator::graph_pool(1);

// A block that another stream used, freed.
cachalot_address free_after_use(SimAllocator& with, uint64_t size, cachalot_stream user) {
  const cachalot_address block = with.allocate(size);
  with.record_stream(block, user);
  with.free(block);
  return block;
}

// ---- Events [core 12]

TEST(RecordStream, OfTheBlocksOwnStreamChangesNothing) {
  SimAllocator with;
  const cachalot_address block = with.allocate(20 * MiB, kOther);
  with.queue_work(kOther);
  with.record_stream(block, kOther);
  with.take_calls();
  with.watch();
  with.free(block);
  EXPECT_EQ(with.take_trace(), "free_requested 0 20M @10; free_completed 0 20M @10");
  EXPECT_EQ(with.take_calls(), "");
}

TEST(RecordStream, OfAnAddressThatIsNoBlockIsIgnored) {
  SimAllocator with;
  const cachalot_address block = with.allocate(1000);
  for (const cachalot_address address : {cachalot_address{0}, block + 512, kFirstAddress * 2}) {
    with.record_stream(address, kOther);
  }
  with.watch();
  with.free(block);
  EXPECT_EQ(with.take_trace(), "free_requested 0 1000; free_completed 0 1000");
}

TEST(RecordStream, AsksTheDriverNothing) {
  SimAllocator with;
  const cachalot_address block = with.allocate(1000);
  with.take_calls();
  with.record_stream(block, kOther);
  EXPECT_EQ(with.take_calls(), "");
}

TEST(FreeAfterUse, RecordsOneEventForEachStream) {
  SimAllocator with;
  const cachalot_address block = with.allocate(20 * MiB);
  for (const cachalot_stream stream : {kOther, kThird, kOther}) with.record_stream(block, stream);
  with.take_calls();
  with.free(block);
  EXPECT_EQ(with.take_calls(), "event_create; event_record 10; event_create; event_record 20");
}

TEST(FreeAfterUse, ReusesEvents) {
  SimAllocator with;
  free_after_use(with, 20 * MiB, kOther);
  with.allocate(512);  // sees that the event is done
  with.take_calls();
  free_after_use(with, 20 * MiB, kThird);
  EXPECT_EQ(with.take_calls(), "event_record 20");
}

TEST(FreeAfterUse, WaitsForWorkQueuedBeforeTheFree) {
  SimAllocator with;
  const cachalot_address block = with.allocate(20 * MiB);
  with.record_stream(block, kOther);
  with.queue_work(kOther);  // after the record: still protected
  with.free(block);
  EXPECT_NE(with.allocate(20 * MiB), block);
  with.finish_work(kOther);
  EXPECT_EQ(with.allocate(20 * MiB), block);
}

TEST(FreeAfterUse, DoesNotWaitForWorkQueuedAfterTheFree) {
  SimAllocator with;
  const cachalot_address block = free_after_use(with, 20 * MiB, kOther);
  with.queue_work(kOther);
  EXPECT_EQ(with.allocate(20 * MiB), block);
}

TEST(FreeAfterUse, WaitsForEveryStream) {
  SimAllocator with;
  const cachalot_address block = with.allocate(20 * MiB);
  for (const cachalot_stream stream : {kOther, kThird}) {
    with.record_stream(block, stream);
    with.queue_work(stream);
  }
  with.free(block);
  with.finish_work(kThird);
  with.allocate(512);
  EXPECT_EQ(with.layout(), "0: pending 20M | 20M: used 512, free 2096640");
  with.finish_work(kOther);
  EXPECT_EQ(with.allocate(20 * MiB), block);
}

TEST(FreeAfterUse, KeepsTheBlockActiveButNotAllocated) {
  SimAllocator with;
  with.queue_work(kOther);
  free_after_use(with, 5 * MiB, kOther);
  const auto five = static_cast<int64_t>(5 * MiB);
  cachalot_stats stats = with.stats();
  EXPECT_EQ(stats.allocation.all.current, 0);
  EXPECT_EQ(stats.allocated_bytes.all.current, 0);
  EXPECT_EQ(stats.active.all.current, 1);
  EXPECT_EQ(stats.active_bytes.all.current, five);
  EXPECT_EQ(stats.requested_bytes.all.current, five);
  EXPECT_EQ(with.layout(), "0: pending 5M, free 15M");
  with.finish_work(kOther);
  with.allocate(512);
  stats = with.stats();
  EXPECT_EQ(stats.active.large_pool.current, 0);
  EXPECT_EQ(stats.active_bytes.large_pool.current, 0);
  EXPECT_EQ(stats.requested_bytes.large_pool.current, 0);
}

TEST(FreeAfterUse, IsCompletedByALaterAllocation) {
  SimAllocator with;
  with.watch();
  free_after_use(with, 20 * MiB, kOther);
  EXPECT_EQ(with.take_trace(), "segment_alloc 0 20M; alloc 0 20M; free_requested 0 20M");
  with.free(with.allocate(1000));
  EXPECT_EQ(with.take_trace(),
            "free_completed 0 20M; segment_alloc 20M 2M; alloc 20M 1000; "
            "free_requested 20M 1000; free_completed 20M 1000");
}

TEST(FreeAfterUse, IsNotCompletedByAnotherFree) {
  SimAllocator with;
  const cachalot_address other = with.allocate(512);
  free_after_use(with, 20 * MiB, kOther);
  with.watch();
  with.free(other);
  EXPECT_EQ(with.take_trace(), "free_requested 0 512; free_completed 0 512");
}

TEST(Events, AreSeenInTheirOrderOnAStream) {
  SimAllocator with;
  free_after_use(with, 20 * MiB, kOther);
  with.queue_work(kOther);
  free_after_use(with, 22 * MiB, kOther);
  with.queue_work(kOther);
  free_after_use(with, 24 * MiB, kOther);
  with.watch();
  with.ok(cachalot_sim_log_calls(with.driver(), CACHALOT_SIM_LOG_QUERIES, with.error()));
  with.take_calls();
  with.ok(cachalot_sim_finish_oldest(with.driver(), 0, kOther, with.error()));
  with.allocate(512);
  EXPECT_EQ(with.take_trace().substr(0, 46), "free_completed 20M 22M; segment_alloc 66M 2M; ")
      << "the first was completed by the allocation of the second";
  EXPECT_EQ(with.take_calls(), "event_query 10; event_query 10")
      << "one that is done, one that is not";
  with.finish_work(kOther);
  with.allocate(512);
  EXPECT_EQ(with.take_trace().substr(0, 23), "free_completed 42M 24M;");
}

TEST(Events, OfOneStreamDoNotHoldUpThoseOfAnother) {
  SimAllocator with;
  with.queue_work(kOther);
  free_after_use(with, 20 * MiB, kOther);
  const cachalot_address second = free_after_use(with, 22 * MiB, kThird);
  with.watch();
  EXPECT_EQ(with.allocate(22 * MiB), second);
  EXPECT_EQ(with.take_trace(), "free_completed 20M 22M; alloc 20M 22M");
}

TEST(Events, ThatFailAreRaised) {
  SimAllocator with;
  free_after_use(with, 20 * MiB, kOther);
  with.fail(CACHALOT_SIM_CALL_EVENT_QUERY, 700);
  const Outcome outcome = with.try_allocate(512);
  EXPECT_EQ(outcome.status, CACHALOT_ERROR_DRIVER);
  EXPECT_EQ(outcome.error.driver_code, 700);
  with.allocate(512);
  EXPECT_EQ(with.stats().active.large_pool.current, 0) << "the next look finds it done";
}

TEST(Events, ThatCannotBeRecordedPutTheFreeOff) {
  SimAllocator with;
  const cachalot_address block = with.allocate(20 * MiB);
  for (const cachalot_stream stream : {kOther, kThird}) {
    with.record_stream(block, stream);
    with.queue_work(stream);
  }
  with.fail(CACHALOT_SIM_CALL_EVENT_RECORD, 700, 1);
  with.refused(cachalot_free(with.get(), block, with.error()), CACHALOT_ERROR_DRIVER);
  with.finish_work(kOther);
  with.allocate(512);
  EXPECT_EQ(with.stats().active.large_pool.current, 1) << "nothing is reused too early";
  with.finish_work(kThird);
  EXPECT_EQ(with.allocate(20 * MiB), block) << "and nothing is lost";
}

TEST(UserPool, DefersFreesAndEventsIn211) {
  SimAllocator with(SimSetup{.release = CACHALOT_RELEASE_2_11});
  free_after_use(with, 20 * MiB, kOther);
  const auto pool = SimAllocator::user_pool(1);
  with.begin_pool(pool);
  with.take_calls();
  with.watch();
  free_after_use(with, 22 * MiB, kOther);
  EXPECT_EQ(with.take_calls(), "malloc 22M 20M");
  EXPECT_EQ(with.take_trace(), "segment_alloc 20M 22M; alloc 20M 22M; free_requested 20M 22M");
  with.leave_pool(pool);
  EXPECT_EQ(with.take_trace(), "") << "leaving the pool settles nothing";
  with.allocate(512);
  EXPECT_NE(with.take_trace().find("free_completed 0 20M"), std::string::npos);
}

TEST(UserPool, ChangesNothingForEventsIn215) {
  SimAllocator with;
  free_after_use(with, 20 * MiB, kOther);
  const auto pool = SimAllocator::user_pool(1);
  with.begin_pool(pool);
  with.take_calls();
  with.watch();
  free_after_use(with, 22 * MiB, kOther);
  EXPECT_EQ(with.take_calls(), "malloc 22M 20M; event_record 10");
  with.allocate(512);
  EXPECT_EQ(with.take_trace(),
            "free_completed 0 20M; segment_alloc 20M 22M; alloc 20M 22M; free_requested 20M 22M; "
            "free_completed 20M 22M; segment_alloc 42M 2M; alloc 42M 512");
  with.leave_pool(pool);
}

// ---- Captures [R10 to R14, core 18]

TEST(Capture, DefersFreesOfBlocksThatOtherStreamsUsed) {
  for (const int32_t release : kReleases) {
    SimAllocator with(SimSetup{.release = release});
    with.begin_capture(kGraph, 0, 1);
    with.ok(cachalot_sim_fork_capture(with.driver(), 0, 0, kOther, with.error()));
    const cachalot_address block = with.allocate(20 * MiB);
    with.record_stream(block, kOther);
    with.take_calls();
    with.free(block);
    EXPECT_EQ(with.take_calls(), "") << "an event would be part of the graph";
    EXPECT_NE(with.allocate(20 * MiB), block);
    with.end_capture(kGraph, 1);
    EXPECT_EQ(with.layout(), "0: pending 20M | 20M: used 20M");
    with.take_calls();
    with.allocate(512);
    EXPECT_EQ(with.take_calls(), "malloc 2M 40M") << "the use belonged to the capture: no event";
    EXPECT_EQ(with.layout(), "0: free 20M | 20M: used 20M | 40M: used 512, free 2096640");
  }
}

TEST(Capture, LetsBlocksOfItsOwnStreamBeReusedAtOnce) {
  SimAllocator with;
  with.begin_capture(kGraph, 0, 1);
  const cachalot_address block = with.allocate(20 * MiB);
  with.free(block);
  EXPECT_EQ(with.allocate(20 * MiB), block);
  with.end_capture(kGraph, 1);
}

TEST(Capture, LooksAtNoEvents) {
  for (const int32_t release : kReleases) {
    SimAllocator with(SimSetup{.release = release});
    free_after_use(with, 20 * MiB, kOther);
    with.begin_capture(kGraph, 0, 1);
    with.allocate(512);
    EXPECT_EQ(with.stats().active.large_pool.current, 1);
    with.end_capture(kGraph, 1);
    with.allocate(512);
    EXPECT_EQ(with.stats().active.large_pool.current, 0);
  }
}

TEST(Capture, ReleasesNothing) {
  for (const int32_t release : kReleases) {
    SimAllocator with(SimSetup{.release = release, .capacity = 100 * MiB});
    with.cache({60});
    with.begin_capture(kGraph, 0, 1);
    EXPECT_EQ(with.try_allocate(80 * MiB).status, CACHALOT_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(with.stats().num_alloc_retries, 0);
    with.ok(cachalot_empty_device_cache_on_stream(with.get(), 0, 0, with.error()));
    EXPECT_EQ(with.reserved(), 60 * MiB);
    EXPECT_EQ(with.stats().num_sync_all_streams, 0);
    with.allocate(20 * MiB);
    with.end_capture(kGraph, 1);
  }
}

TEST(Capture, RefusesToWaitForStreams) {
  for (const int32_t release : kReleases) {
    SimAllocator with(SimSetup{.release = release});
    const auto pool = SimAllocator::user_pool(1);
    with.cache_in_pool(pool, {20});
    with.release_pool(pool);
    with.begin_capture(kGraph, 0, 1);
    with.refused(cachalot_pool_empty_on_stream(with.get(), 0, pool, 0, with.error()),
                 CACHALOT_ERROR_INVALID_STATE);
    EXPECT_EQ(with.stats().num_sync_all_streams, 1) << "counted by then";
    with.end_capture(kGraph, 1);
    with.empty_pool(pool);
    EXPECT_EQ(with.reserved(), 0u);
  }
}

TEST(Capture, LeavesOtherStreamsOfTheDeviceAloneIn215) {
  for (const int32_t release : kReleases) {
    SimAllocator with(SimSetup{.release = release});
    with.begin_capture(kGraph, kThird, 1);
    const cachalot_address block = with.allocate(20 * MiB);
    with.record_stream(block, kOther);
    with.take_calls();
    with.free(block);
    EXPECT_EQ(with.take_calls(),
              release == CACHALOT_RELEASE_2_11 ? "" : "event_create; event_record 10");
    with.end_capture(kGraph, 1);
  }
}

TEST(Capture, IsNotNoticedWithoutItsMarkIn215) {
  SimAllocator with;
  with.begin_pool(kGraph, CACHALOT_ROUTE_CAPTURE, 0, 1);
  with.ok(cachalot_sim_begin_capture(with.driver(), 0, 0, 1, with.error()));
  const cachalot_address block = with.allocate(20 * MiB);
  with.record_stream(block, kOther);
  with.take_calls();
  with.free(block);
  EXPECT_EQ(with.take_calls(), "event_create; event_record 10");
  with.ok(cachalot_sim_end_capture(with.driver(), 0, 1, with.error()));
  with.end_pool(kGraph);
}

TEST(Capture, AsksTheDriverForMemoryInRelaxedMode) {
  SimAllocator with;
  with.ok(cachalot_sim_log_calls(
      with.driver(), CACHALOT_SIM_LOG_CALLS | CACHALOT_SIM_LOG_CAPTURE_MODES, with.error()));
  with.allocate(20 * MiB);
  EXPECT_EQ(with.take_calls(), "malloc 20M 0");
  with.begin_capture(kGraph, 0, 1);
  with.allocate(20 * MiB);
  EXPECT_EQ(with.take_calls(), "capture_mode 2; malloc 20M 20M; capture_mode 0");
  with.end_capture(kGraph, 1);
}

TEST(CaptureMark, OfAnEndWithoutABeginIsRefusedIn215) {
  SimAllocator with;
  with.refused(cachalot_capture_end(with.get(), 0, with.error()), CACHALOT_ERROR_INVALID_STATE);
  with.ok(cachalot_capture_begin(with.get(), 0, with.error()));
  with.ok(cachalot_capture_end(with.get(), 0, with.error()));
  with.refused(cachalot_capture_end(with.get(), 0, with.error()), CACHALOT_ERROR_INVALID_STATE);
}

TEST(CaptureMark, AloneCapturesNothing) {
  SimAllocator with;
  with.ok(cachalot_capture_begin(with.get(), 0, with.error()));
  const cachalot_address block = with.allocate(20 * MiB);
  with.record_stream(block, kOther);
  with.take_calls();
  with.free(block);
  EXPECT_EQ(with.take_calls(), "event_create; event_record 10");
  with.ok(cachalot_capture_end(with.get(), 0, with.error()));
}

// ---- Reuse within a capture [core 18.4, R20, R21]

constexpr char kReuse[] = "graph_capture_record_stream_reuse:True";

// A capture on the default stream, forked to others; a block that all of them used is freed.
class ReuseInACapture : public testing::TestWithParam<int32_t> {
 protected:
  ReuseInACapture() : with(SimSetup{.config = kReuse, .release = GetParam()}) {
    with.begin_capture(kGraph, 0, 1);
    node(0);
    block = with.allocate(20 * MiB);
  }

  void node(cachalot_stream stream) {
    with.ok(cachalot_sim_add_node(with.driver(), 0, stream, with.error()));
  }
  void fork(cachalot_stream to) {
    with.ok(cachalot_sim_fork_capture(with.driver(), 0, 0, to, with.error()));
    node(to);
    with.record_stream(block, to);
  }
  void join(cachalot_stream from) {
    with.ok(cachalot_sim_join_capture(with.driver(), 0, 0, from, with.error()));
  }

  SimAllocator with;
  cachalot_address block = 0;
};

TEST_P(ReuseInACapture, WaitsUntilTheOtherStreamIsJoined) {
  fork(kOther);
  with.free(block);
  const cachalot_address before = with.allocate(20 * MiB);
  EXPECT_NE(before, block);
  join(kOther);
  EXPECT_EQ(with.allocate(20 * MiB), block);
  with.end_capture(kGraph, 1);
}

TEST_P(ReuseInACapture, WaitsUntilAllFourStreamsAreJoined) {
  for (const cachalot_stream stream : {0x10u, 0x20u, 0x30u}) fork(stream);
  with.free(block);
  for (const cachalot_stream stream : {0x10u, 0x20u, 0x30u}) {
    EXPECT_NE(with.allocate(20 * MiB), block);
    join(stream);
  }
  EXPECT_EQ(with.allocate(20 * MiB), block);
  with.end_capture(kGraph, 1);
}

TEST_P(ReuseInACapture, FollowsTheDependenciesOfTheNodes) {
  fork(kOther);
  node(kOther);
  with.free(block);
  join(kOther);
  node(0);
  EXPECT_EQ(with.allocate(20 * MiB), block) << "the new node depends on both";
  with.end_capture(kGraph, 1);
}

TEST_P(ReuseInACapture, IsForTheBlocksStreamOnly) {
  fork(kOther);
  with.free(block);
  join(kOther);
  with.ok(cachalot_sim_join_capture(with.driver(), 0, kOther, 0, with.error()));
  with.allocate(20 * MiB, kOther);
  EXPECT_EQ(with.stats().active.all.current, 2) << "the freed one still waits";
  with.end_capture(kGraph, 1);
}

TEST_P(ReuseInACapture, IsOverWhenTheRoutingEnds) {
  fork(kOther);
  with.free(block);
  with.watch();
  with.end_capture(kGraph, 1);
  const bool is_old = GetParam() == CACHALOT_RELEASE_2_11;
  EXPECT_EQ(with.take_trace(), is_old ? "" : "free_completed 0 20M")
      << "since 2.12 the end of the routing settles what is deferred";
  with.allocate(512);
  EXPECT_EQ(with.stats().active.large_pool.current, 0);
}

TEST_P(ReuseInACapture, RefusesToEndTheRoutingBeforeTheCapture) {
  with.allocate(20 * MiB);  // recovery is tried for this stream
  with.refused(cachalot_pool_end(with.get(), 0, kGraph, with.error()),
               CACHALOT_ERROR_INVALID_STATE);
  with.end_capture(kGraph, 1);
}

INSTANTIATE_TEST_SUITE_P(Releases, ReuseInACapture, testing::ValuesIn(kReleases),
                         testing::PrintToStringParamName());

TEST(ReuseInACaptureWithoutTheOption, NeverHappens) {
  SimAllocator with;
  with.begin_capture(kGraph, 0, 1);
  const cachalot_address block = with.allocate(20 * MiB);
  with.ok(cachalot_sim_add_node(with.driver(), 0, 0, with.error()));
  with.ok(cachalot_sim_fork_capture(with.driver(), 0, 0, kOther, with.error()));
  with.record_stream(block, kOther);
  with.free(block);
  with.ok(cachalot_sim_join_capture(with.driver(), 0, 0, kOther, with.error()));
  EXPECT_NE(with.allocate(20 * MiB), block);
  with.end_capture(kGraph, 1);
}

TEST(ReuseInACaptureWithoutARoute, IsRefused) {
  SimAllocator with(kReuse);
  with.ok(cachalot_sim_begin_capture(with.driver(), 0, 0, 1, with.error()));
  with.ok(cachalot_sim_add_node(with.driver(), 0, 0, with.error()));
  with.ok(cachalot_capture_begin(with.get(), 0, with.error()));
  EXPECT_EQ(with.try_allocate(512).status, CACHALOT_ERROR_INVALID_STATE);
  with.ok(cachalot_sim_end_capture(with.driver(), 0, 1, with.error()));
  with.ok(cachalot_capture_end(with.get(), 0, with.error()));
  with.allocate(512);
}

}  // namespace
}  // namespace cachalot_test
