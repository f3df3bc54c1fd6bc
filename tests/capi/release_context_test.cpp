// SPDX-License-Identifier: MIT OR Apache-2.0
// cachalot_release_context: before a device's context ends.
#include <string>

#include "../count_of.h"
#include "sim_fixture.h"

namespace cachalot_test {
namespace {

constexpr cachalot_stream kOther = 0x10;
constexpr cachalot_stream kThird = 0x20;

void release(SimAllocator& with, int32_t device = 0) {
  with.ok(cachalot_release_context(with.get(), device, with.error()));
}

// The calls since the last look, and that each event that they made is gone.
std::string calls_without_events_left(SimAllocator& with) {
  const std::string calls = with.take_calls();
  EXPECT_EQ(count_of(calls, "event_create"), count_of(calls, "event_destroy")) << calls;
  return calls;
}

TEST(ReleasedContext, KeepsNoMemoryAndNoEventAndIsTakenAgain) {
  for (const int32_t release_number : kReleases) {
    for (const char* config : {"", "expandable_segments:True"}) {
      SimAllocator with(SimSetup{.config = config, .release = release_number});
      for (int round = 0; round < 3; round++) {
        const cachalot_address block = with.allocate(20 * MiB);
        with.record_stream(block, CACHALOT_STREAM_ALL);
        with.free(block);
        release(with);
        EXPECT_EQ(with.reserved(), 0u);
        EXPECT_EQ(count_of(calls_without_events_left(with), "event_create"), 1u);
      }
    }
  }
}

TEST(ReleasedContext, IsWaitedForWhereStreamsUseFreedBlocks) {
  SimAllocator with;
  const cachalot_address block = with.allocate(20 * MiB);
  for (const cachalot_stream stream : {kOther, kThird}) {
    with.queue_work(stream);
    with.record_stream(block, stream);
  }
  with.free(block);
  release(with);
  EXPECT_EQ(with.reserved(), 0u);
  EXPECT_EQ(count_of(calls_without_events_left(with), "event_sync"), 2u);
}

TEST(ReleasedContext, OfOneDeviceLeavesTheOthersAlone) {
  SimAllocator with(SimSetup{.device_count = 2});
  for (const int32_t device : {0, 1}) with.free(with.allocate(20 * MiB, 0, device));
  release(with, 1);
  EXPECT_EQ(cachalot_memory_reserved(with.get(), 0), 20 * MiB);
  EXPECT_EQ(cachalot_memory_reserved(with.get(), 1), 0u);
}

class ReleasedContextOfAServer : public testing::TestWithParam<int32_t> {
 protected:
  static SimSetup setup() {
    SimSetup setup;
    setup.policy.policy = CACHALOT_POLICY_SERVING;
    setup.policy.streams = GetParam();
    return setup;
  }
  SimAllocator with{setup()};
};

TEST_P(ReleasedContextOfAServer, KeepsNoEventOfALoanOrOfALookAtTheWork) {
  for (int round = 0; round < 3; round++) {
    const cachalot_address block = with.allocate(8 * MiB, kOther);
    with.queue_work(kOther);
    with.free(block);
    EXPECT_EQ(with.allocate(8 * MiB, kThird), block);
    with.free(block);
    with.queue_work(kThird);
    with.free(with.allocate(60 * MiB, kOther));
    release(with);
    EXPECT_EQ(with.reserved(), 0u);
    EXPECT_GT(count_of(calls_without_events_left(with), "event_create"), 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(Promises, ReleasedContextOfAServer,
                         testing::Values(CACHALOT_STREAMS_UNANNOUNCED, CACHALOT_STREAMS_ANNOUNCED));

TEST(ReleasedContext, IsRefusedDuringACaptureAndOfNoDevice) {
  SimAllocator with;
  with.ok(cachalot_capture_begin(with.get(), 0, with.error()));
  EXPECT_EQ(with.refused(cachalot_release_context(with.get(), 0, with.error()),
                         CACHALOT_ERROR_INVALID_STATE),
            "a context cannot be released while a capture may be under way");
  with.ok(cachalot_capture_end(with.get(), 0, with.error()));
  with.refused(cachalot_release_context(with.get(), 1, with.error()),
               CACHALOT_ERROR_INVALID_ARGUMENT);
  with.refused(cachalot_release_context(with.get(), -1, with.error()),
               CACHALOT_ERROR_INVALID_ARGUMENT);
}

TEST(ReleasedContext, IsNotForTheDriversOwnPool) {
  SimAllocator with("backend:cudaMallocAsync");
  EXPECT_EQ(with.refused(cachalot_release_context(with.get(), 0, with.error()),
                         CACHALOT_ERROR_NOT_SUPPORTED),
            "backend:cudaMallocAsync keeps the contexts of its devices");
}

}  // namespace
}  // namespace cachalot_test
