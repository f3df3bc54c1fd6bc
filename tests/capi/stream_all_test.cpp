// SPDX-License-Identifier: MIT OR Apache-2.0
// CACHALOT_STREAM_ALL: uses by streams that the caller does not know, and blocks of no stream.
#include <functional>

#include "sim_fixture.h"

namespace cachalot_test {
namespace {

constexpr cachalot_stream kAll = CACHALOT_STREAM_ALL;
constexpr cachalot_stream kOther = 0x10;
constexpr cachalot_stream kThird = 0x20;
constexpr const char* kEvent = "event_record ffffffffffffffff";

// A free block of the stream, which all streams may have used, behind work on two of them.
cachalot_address free_behind_work(SimAllocator& with, cachalot_stream own,
                                  uint64_t size = 20 * MiB) {
  const cachalot_address block = with.allocate(size, own);
  with.record_stream(block, kAll);
  with.queue_work(kOther);
  with.queue_work(kThird);
  with.take_calls();
  with.free(block);
  return block;
}

void expect_reuse_behind_the_work_of_all(SimAllocator& with, cachalot_stream own) {
  const cachalot_address block = free_behind_work(with, own);
  EXPECT_EQ(with.take_calls(), std::string("event_create; ") + kEvent) << "one for all of them";
  with.queue_work(kOther);  // after the free: not waited for
  EXPECT_NE(with.allocate(20 * MiB, own), block);
  with.ok(cachalot_sim_finish_oldest(with.driver(), 0, kOther, with.error()));
  EXPECT_NE(with.allocate(20 * MiB, own), block) << "the third stream is not done";
  with.finish_work(kThird);
  EXPECT_EQ(with.allocate(20 * MiB, own), block);
}

TEST(UseByAllStreams, IsWaitedForByOneEvent) {
  for (const int32_t release : kReleases) {
    for (const char* config : {"", "expandable_segments:True"}) {
      SimAllocator with(SimSetup{.config = config, .release = release});
      expect_reuse_behind_the_work_of_all(with, kOther);
    }
  }
}

// Not as with a single stream, whose queue orders a use by itself.
TEST(UseByAllStreams, IsNotIgnoredWhereItIsTheBlocksOwnStream) {
  for (const int32_t release : kReleases) {
    for (const char* config : {"", "expandable_segments:True"}) {
      SimAllocator with(SimSetup{.config = config, .release = release});
      expect_reuse_behind_the_work_of_all(with, kAll);
    }
  }
}

TEST(UseByAllStreams, IsWaitedForBesideOtherUses) {
  SimAllocator with;
  const cachalot_address block = with.allocate(20 * MiB, kOther);
  for (const cachalot_stream stream : {kThird, kAll, kAll}) with.record_stream(block, stream);
  with.queue_work(0x30);
  with.take_calls();
  with.free(block);
  const std::string calls = with.take_calls();
  EXPECT_NE(calls.find("event_record 20"), std::string::npos);
  EXPECT_NE(calls.find(kEvent), std::string::npos);
  EXPECT_NE(with.allocate(20 * MiB, kOther), block);
  with.finish_work(0x30);
  EXPECT_EQ(with.allocate(20 * MiB, kOther), block);
}

TEST(UseByAllStreams, IsWaitedForWhenTheCacheIsEmptied) {
  SimAllocator with;
  free_behind_work(with, kAll);
  with.take_calls();
  with.empty_cache();
  EXPECT_EQ(with.take_calls(), "event_sync ffffffffffffffff; free 0");
  EXPECT_EQ(with.reserved(), 0u);
  free_behind_work(with, kOther);  // its work was done by the wait
  EXPECT_EQ(with.reserved(), 20 * MiB);
}

// Also while a free waits.
TEST(UseByAllStreams, DoesNotKeepAnAllocatorFromItsEnd) {
  SimAllocator with;
  free_behind_work(with, kOther);
  const cachalot_address live = with.allocate(512, kAll);
  with.record_stream(live, kAll);
}

// The driver is not asked, whose answer to a stream that it does not know could be anything.
// The event would end the capture. No driver is asked whether all streams are captured.
TEST(UseByAllStreams, IsWaitedForBehindTheCapturesThatAreMarked) {
  SimAllocator with;
  const cachalot_address block = with.allocate(20 * MiB, kAll);
  with.ok(cachalot_capture_begin(with.get(), 0, with.error()));
  with.fail(CACHALOT_SIM_CALL_CAPTURE_INFO, 999);
  with.record_stream(block, kAll);
  with.free(block);
  EXPECT_NE(with.allocate(20 * MiB, kAll), block);
  EXPECT_EQ(with.take_calls().find(kEvent), std::string::npos);
  with.ok(cachalot_capture_end(with.get(), 0, with.error()));
  with.allocate(512, kAll);
  EXPECT_NE(with.take_calls().find(kEvent), std::string::npos);
}

TEST(UseByAllStreams, IsWaitedForAfterACaptureThatPutsTheFreeOff) {
  constexpr cachalot_pool_id kGraph = SimAllocator::graph_pool(1);
  for (const char* config : {"", "graph_capture_record_stream_reuse:True"}) {
    SimAllocator with(SimSetup{.config = config});
    with.begin_capture(kGraph, kOther, 1);
    const cachalot_address block = with.allocate(20 * MiB, kOther);
    with.ok(cachalot_sim_add_node(with.driver(), 0, kOther, with.error()));
    with.record_stream(block, kAll);
    with.take_calls();
    with.free(block);
    EXPECT_NE(with.allocate(20 * MiB, kOther), block) << "no graph orders the use";
    EXPECT_EQ(with.take_calls().find("event"), std::string::npos);
    with.end_capture(kGraph, 1);
    with.allocate(512);
    EXPECT_NE(with.take_calls().find(kEvent), std::string::npos);
  }
}

TEST(UseByAllStreams, WaitsWhereTheDriverRefusesTheEvent) {
  SimAllocator with;
  const cachalot_address block = with.allocate(20 * MiB, kAll);
  with.record_stream(block, kAll);
  with.queue_work(kOther);
  with.fail(CACHALOT_SIM_CALL_EVENT_RECORD, 999);
  with.refused(cachalot_free(with.get(), block, with.error()), CACHALOT_ERROR_DRIVER);
  EXPECT_NE(with.allocate(20 * MiB, kAll), block);
  with.finish_work(kOther);
  EXPECT_EQ(with.allocate(20 * MiB, kAll), block);
}

// ---- Blocks of no stream

TEST(BlockOfNoStream, ServesTheNextRequestForAllStreamsAtOnce) {
  SimAllocator with;
  const cachalot_address block = with.allocate(20 * MiB, kAll);
  EXPECT_EQ(with.block(block).stream, kAll);
  with.queue_work(kOther);
  with.take_calls();
  with.free(block);
  EXPECT_NE(with.allocate(20 * MiB, kOther), block);
  with.take_calls();
  EXPECT_EQ(with.allocate(20 * MiB, kAll), block);
  EXPECT_EQ(with.take_calls(), "");
}

TEST(BlockOfNoStream, WaitsForTheStreamsThatAreKnown) {
  SimAllocator with;
  const cachalot_address block = with.allocate(20 * MiB, kAll);
  with.record_stream(block, kOther);
  with.queue_work(kOther);
  with.queue_work(kThird);
  with.free(block);
  EXPECT_NE(with.allocate(20 * MiB, kAll), block);
  with.finish_work(kOther);
  EXPECT_EQ(with.allocate(20 * MiB, kAll), block);
}

TEST(BlockOfNoStream, HasTheNumberInHistoryAndSnapshots) {
  SimAllocator with;
  with.watch();
  const cachalot_address block = with.allocate(20 * MiB, kAll);
  EXPECT_EQ(with.take_trace(),
            "segment_alloc 0 20M @ffffffffffffffff; alloc 0 20M @ffffffffffffffff");
  EXPECT_EQ(with.segments().at(0).stream, kAll);
  with.free(block);
}

// ---- Who refuses it

TEST(AllStreams, AreNoStreamOfTheDriversPool) {
  constexpr const char* kText =
      "backend:cudaMallocAsync orders memory by single streams, which CACHALOT_STREAM_ALL is not";
  SimAllocator with("backend:cudaMallocAsync");
  const Outcome outcome = with.try_allocate(MiB, kAll);
  EXPECT_EQ(outcome.status, CACHALOT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(outcome.message(), kText);
  const cachalot_address block = with.allocate(MiB, kOther);
  const auto refused = [&](cachalot_status status) {
    return with.refused(status, CACHALOT_ERROR_INVALID_ARGUMENT);
  };
  uint64_t size = 0;
  EXPECT_EQ(refused(cachalot_record_stream(with.get(), block, kAll, with.error())), kText);
  EXPECT_EQ(refused(cachalot_largest_block_on_stream(with.get(), 0, 0, kAll, &size, with.error())),
            kText);
  with.free(block);
  with.begin_pool(SimAllocator::user_pool(1));
  EXPECT_EQ(refused(cachalot_pool_end_on_stream(with.get(), 0, SimAllocator::user_pool(1), kAll,
                                                with.error())),
            kText);
  with.end_pool(SimAllocator::user_pool(1));
}

TEST(AllStreams, DoNotEnd) {
  SimAllocator with;
  EXPECT_EQ(with.refused(cachalot_stream_ended(with.get(), 0, kAll, with.error()),
                         CACHALOT_ERROR_INVALID_ARGUMENT),
            "CACHALOT_STREAM_ALL is no stream that can end");
}

TEST(AllStreams, HaveNoWorkOfTheirOwn) {
  SimAllocator with;
  cachalot_driver* const sim = with.driver();
  cachalot_error* const error = with.error();
  for (const auto& control : std::vector<std::function<cachalot_status()>>{
           [&] { return cachalot_sim_queue_work(sim, 0, kAll, error); },
           [&] { return cachalot_sim_finish_oldest(sim, 0, kAll, error); },
           [&] { return cachalot_sim_finish_stream(sim, 0, kAll, error); },
           [&] { return cachalot_sim_begin_capture(sim, 0, kAll, 1, error); },
           [&] { return cachalot_sim_add_node(sim, 0, kAll, error); },
           [&] { return cachalot_sim_fork_capture(sim, 0, kOther, kAll, error); },
           [&] { return cachalot_sim_join_capture(sim, 0, kAll, kOther, error); }}) {
    EXPECT_EQ(with.refused(control(), CACHALOT_ERROR_INVALID_ARGUMENT),
              "CACHALOT_STREAM_ALL is no single stream, which work and captures need");
  }
}

// ---- The serving policy [policy P10]

SimSetup serving(int32_t streams) {
  SimSetup setup{.capacity = 64 * MiB};
  setup.policy.policy = CACHALOT_POLICY_SERVING;
  setup.policy.streams = streams;
  return setup;
}

cachalot_policy_stats policy_stats(SimAllocator& with) {
  cachalot_policy_stats stats = {};
  stats.struct_size = sizeof stats;
  with.ok(cachalot_get_policy_stats(with.get(), 0, &stats, with.error()));
  return stats;
}

class ServedToAllStreams : public testing::TestWithParam<int32_t> {
 protected:
  ServedToAllStreams() {
    with.ok(cachalot_sim_log_calls(with.driver(), CACHALOT_SIM_LOG_CALLS | CACHALOT_SIM_LOG_WAITS,
                                   with.error()));
  }
  SimAllocator with{serving(GetParam())};
};

// No queue could wait.
TEST_P(ServedToAllStreams, MemoryOfAStreamIsWaitedForOnTheHost) {
  const cachalot_address block = with.allocate(8 * MiB, kOther);
  with.queue_work(kOther);
  with.free(block);
  with.take_calls();
  EXPECT_EQ(with.allocate(8 * MiB, kAll), block);
  EXPECT_EQ(with.take_calls(),
            GetParam() == CACHALOT_STREAMS_ANNOUNCED ? "stream_sync 10" : "device_sync");
  EXPECT_EQ(policy_stats(with).stream_waits, 0u);
  EXPECT_EQ(policy_stats(with).host_waits, 1u);
  with.free(block);
  EXPECT_EQ(with.allocate(8 * MiB, kOther), block) << "the stream waits for all others";
  EXPECT_EQ(policy_stats(with).stream_waits, 1u);
}

TEST_P(ServedToAllStreams, PagesOfAStreamAreWaitedForOnTheHost) {
  with.free(with.allocate(40 * MiB, kOther));
  with.queue_work(kOther);
  with.take_calls();
  with.free(with.allocate(60 * MiB, kAll));
  const std::string calls = with.take_calls();
  EXPECT_NE(calls.find("_sync"), std::string::npos);
  EXPECT_EQ(calls.find("stream_wait"), std::string::npos);
  EXPECT_GT(policy_stats(with).pages_moved, 0u);
}

TEST_P(ServedToAllStreams, MemoryIsLentToAStreamThatWaitsForAllOthers) {
  const cachalot_address block = with.allocate(8 * MiB, kAll);
  with.queue_work(kThird);
  with.free(block);
  with.take_calls();
  EXPECT_EQ(with.allocate(8 * MiB, kOther), block);
  EXPECT_EQ(with.take_calls(), GetParam() == CACHALOT_STREAMS_ANNOUNCED
                                   ? std::string("event_create; ") + kEvent + "; stream_wait 10"
                                   : "event_create; event_record_all; stream_wait 10");
}

TEST_P(ServedToAllStreams, UsesAreWaitedForByOneEvent) {
  expect_reuse_behind_the_work_of_all(with, kAll);
}

INSTANTIATE_TEST_SUITE_P(Promises, ServedToAllStreams,
                         testing::Values(CACHALOT_STREAMS_UNANNOUNCED, CACHALOT_STREAMS_ANNOUNCED));

}  // namespace
}  // namespace cachalot_test
