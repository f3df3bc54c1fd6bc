// SPDX-License-Identifier: MIT OR Apache-2.0
// Recordings that may take so many bytes only (CACHALOT_RECORD_KEEP).
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "recorded_program.h"

using namespace proxy_test;
using cachalot::Action;
using cachalot::Trace;

namespace {

constexpr const char* kLeast = "2097152";

void turn_over(const Driver& driver, int times) {
  for (int i = 0; i < times; i++) CHECK(driver.cuMemFree_v2(allocate(driver, 512)) == 0);
}

RecordedRun record_bounded(const std::function<void(const Driver&)>& program,
                           const std::string& frames = "0") {
  return record(program, {{"CACHALOT_RECORD_KEEP", kLeast}, {"CACHALOT_RECORD_STACKS", frames}});
}

size_t bytes_of(const Trace& trace) { return trace.events.size() * 50; }

TEST(BoundedRecording, KeepsTheLastEventsInTwoFiles) {
  const RecordedRun run = record_bounded([](const Driver& driver) {
    driver.use();
    turn_over(driver, 100000);
    allocate(driver, 4096);
  });
  ASSERT_EQ(run.traces.size(), 2u);
  const Trace& last = run.traces.at("run");
  EXPECT_EQ(last.flaw, "");
  EXPECT_EQ(run.traces.at("run.before").flaw, "");
  EXPECT_LT(bytes_of(last), 2u << 20);
  const Lines lines = lines_of(last);
  ASSERT_GE(lines.size(), 2u);
  EXPECT_EQ(lines[lines.size() - 2], "a s 4096");
  EXPECT_EQ(lines.back(), "z - 0");
}

TEST(BoundedRecording, BeginsEachFileWithWhatIsLive) {
  const RecordedRun run = record_bounded([](const Driver& driver) {
    driver.use();
    const StreamHandle stream = make_stream(driver);
    allocate(driver, 7000);
    DeviceAddress address = 0;
    CHECK(driver.cuMemAllocAsync(&address, 8000, stream) == 0);
    void* host = nullptr;
    CHECK(driver.cuMemAllocHost_v2(&host, 9000) == 0);
    AllocationHandle handle = 0;
    CHECK(driver.cuMemCreate(&handle, 2 << 20, nullptr, 0) == 0);
    CHECK(driver.cuMemAddressReserve(&address, 2 << 20, 0, 0, 0) == 0);
    CHECK(driver.cuMemMap(address, 2 << 20, 0, handle, 0) == 0);
    CHECK(driver.cuMemSetAccess(address, 2 << 20, nullptr, 0) == 0);
    turn_over(driver, 30000);
  });
  const Trace& last = run.traces.at("run");
  Lines begin = lines_of(last);
  // The file may begin between a request and its free.
  begin.erase(std::remove(begin.begin(), begin.end(), "b s 512"), begin.end());
  ASSERT_GE(begin.size(), 4u);
  begin.resize(4);
  std::sort(begin.begin(), begin.begin() + 3);
  EXPECT_EQ(begin[0].rfind("b s 7000", 0), 0u);
  EXPECT_EQ(begin[1].rfind("b t 8000 on ", 0), 0u);
  EXPECT_EQ(begin[2].rfind("b v 2097152", 0), 0u);
  EXPECT_EQ(begin[3], "A l 9000");
}

// What is live by the first file and by the events in it is what the second file begins with.
std::vector<uint64_t> live_at_end(const Trace& trace) {
  std::vector<uint64_t> live;
  for (const cachalot::TraceEvent& event : trace.events) {
    if (event.action() == Action::kAlloc || event.action() == Action::kLiveAtBegin)
      live.push_back(event.address);
    else if (event.action() == Action::kFreeRequested)
      live.erase(std::remove(live.begin(), live.end(), event.address), live.end());
  }
  std::sort(live.begin(), live.end());
  return live;
}

std::vector<uint64_t> live_at_begin(const Trace& trace) {
  std::vector<uint64_t> live;
  for (const cachalot::TraceEvent& event : trace.events)
    if (event.action() == Action::kLiveAtBegin) live.push_back(event.address);
  std::sort(live.begin(), live.end());
  return live;
}

TEST(BoundedRecording, OfManyThreadsGoesOnWhereTheFileBeforeEnds) {
  const RecordedRun run = record_bounded([](const Driver& driver) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++)
      threads.emplace_back([&] {
        driver.use();
        std::vector<DeviceAddress> kept;
        for (int turn = 0; turn < 10000; turn++) {
          kept.push_back(allocate(driver, 512));
          if (kept.size() < 20) continue;
          CHECK(driver.cuMemFree_v2(kept.front()) == 0);
          kept.erase(kept.begin());
        }
      });
    for (std::thread& thread : threads) thread.join();
  });
  ASSERT_EQ(run.traces.size(), 2u);
  EXPECT_EQ(live_at_end(run.traces.at("run.before")), live_at_begin(run.traces.at("run")));
  EXPECT_EQ(live_at_end(run.traces.at("run")).size(), 4u * 19);
}

#ifdef CACHALOT_HAS_STACKS
TEST(BoundedRecording, HasTheStacksOfWhatIsLiveInEachFile) {
  const RecordedRun run = record_bounded(
      [](const Driver& driver) {
        driver.use();
        allocate(driver, 7000);
        turn_over(driver, 30000);
      },
      "8");
  const Trace& last = run.traces.at("run");
  ASSERT_FALSE(last.events.empty());
  EXPECT_EQ(last.events.front().action(), Action::kLiveAtBegin);
  const auto* const stack = last.stack_of(last.events.front().context);
  ASSERT_NE(stack, nullptr);
  EXPECT_NE(last.module_at(*stack, stack->frames.front()), nullptr);
}
#endif

TEST(BoundedRecording, OfAProgramWithManyBlocksHasRoomForItsEvents) {
  const RecordedRun run = record_bounded([](const Driver& driver) {
    driver.use();
    for (int i = 0; i < 40000; i++) allocate(driver, 512);
    turn_over(driver, 100);
  });
  const Trace& last = run.traces.at("run");
  EXPECT_EQ(live_at_end(last).size(), 40000u);
  // A second file for each half of the room, not for each line.
  const Trace& before = run.traces.at("run.before");
  EXPECT_GT(before.events.size() - live_at_begin(before).size(), 100u);
}

}  // namespace
