// SPDX-License-Identifier: MIT OR Apache-2.0
// Programs over a driver of CUDA 11.3, which gives contexts no numbers and has no events of whole contexts.
#include <gtest/gtest.h>

#include "recorded_program.h"

using namespace proxy_test;
using cachalot::Trace;

namespace {

TEST(RecordingOverAnOldDriver, DoesNotMeasureWaits) {
  const RecordedRun run = record([](const Driver& driver) {
    driver.use();
    CHECK(driver.cuMemFree_v2(allocate(driver, 512)) == 0);
    CHECK(std::string(driver.fake_order()) == "cuMemFree_v2");
  });
  const Trace& trace = run.trace();
  EXPECT_EQ(trace.header.driver, 11030);
  EXPECT_EQ(lines_of(trace), Lines({"a s 512", "q s 512", "c - 512", "k s 0", "z - 0"}));
  EXPECT_EQ(trace.details[3].wait_ns, -1);
}

TEST(RecordingOverAnOldDriver, HasTheEndOfAPrimaryContextThatHooksSee) {
  const RecordedRun run = record([](const Driver& driver) {
    driver.use();
    allocate(driver, 512);
    CHECK(driver.cuDevicePrimaryCtxRelease_v2(0) == 0);
    driver.use();
    CHECK(driver.cuMemFree_v2(allocate(driver, 512)) == 0);
  });
  EXPECT_EQ(lines_of(run.trace(), "k"),
            Lines({"a s 512", "x - 0", "a s 512", "q s 512", "c - 512", "z - 0"}));
  EXPECT_EQ(run.trace().flaw, "");
}

TEST(RecordingOverAnOldDriver, SaysOfAFunctionThatItIsNotThere) {
  record([](const Driver& driver) {
    driver.use();
    StreamHandle stream = nullptr;
    CHECK(driver.cuGreenCtxStreamCreate(&stream, nullptr, 0, 0) == 500);
    void* function = nullptr;
    CHECK(driver.cuGetProcAddress("cuGreenCtxStreamCreate", &function, 12050, 1) == 500);
  });
}

// There is no event of a whole context: the host waits instead.
TEST(ServingOverAnOldDriver, WaitsAtAFreeUnderEitherRule) {
  for (const char* rule : {"wait", "event"}) {
    const RecordedRun run = run_recorded(
        [](const Driver& driver) {
          driver.use();
          const DeviceAddress address = allocate(driver, 5000);
          driver.fake_start_work();
          {
            const LaterFinish finish(driver);
            CHECK(driver.cuMemFree_v2(address) == 0);
            CHECK(driver.fake_finished() == 1);
          }
          CHECK(allocate(driver, 5000) == address);
          CHECK(driver.fake_calls("cuMemAlloc_v2") == 1);
          CHECK(driver.fake_calls("cuCtxSynchronize") == 1);
        },
        {{"CACHALOT_RUN_FREE", rule}, {"CACHALOT_RECORD", ""}});
    EXPECT_EQ(run.status, 0) << run.output;
    EXPECT_EQ(run.output, "");
  }
}

TEST(ServingOverAnOldDriver, HoldsBlocksBackWhileAStreamIsCaptured) {
  const RecordedRun run = run_recorded(
      [](const Driver& driver) {
        driver.use();
        const StreamHandle stream = make_stream(driver);
        const DeviceAddress first = allocate(driver, 30 << 20);
        CHECK(driver.cuStreamBeginCapture_v2(stream, kRelaxedCapture) == 0);
        CHECK(driver.cuMemFree_v2(first) == 0);
        CHECK(allocate(driver, 30 << 20) != first);
        Graph graph = nullptr;
        CHECK(driver.cuStreamEndCapture(stream, &graph) == 0 && graph != nullptr);
        CHECK(allocate(driver, 30 << 20) == first);
        CHECK(driver.fake_calls("cuCtxSynchronize") == 1);
      },
      {{"CACHALOT_RUN_FREE", "wait"}, {"CACHALOT_RECORD", ""}});
  EXPECT_EQ(run.status, 0) << run.output;
  EXPECT_EQ(run.output, "");
}

}  // namespace
