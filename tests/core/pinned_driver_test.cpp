// SPDX-License-Identifier: MIT OR Apache-2.0
// Pinned memory as the memory of one device, which the streams of three devices use.
#include "device/pinned_driver.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>

#include "device/sim_driver.h"

namespace cachalot {
namespace {

constexpr Stream kStream = 0x50;
constexpr DriverCode kFailure = 999;

class PinnedDriverTest : public testing::Test {
 protected:
  PinnedDriverTest() {
    base->machine().log_calls(kLogCalls);
    EXPECT_EQ(driver.event_create(0, &event), kSuccess);
  }

  std::string calls() {
    std::string text(base->machine().take_calls(nullptr, 0), '\0');
    base->machine().take_calls(text.data(), text.size() + 1);
    return text;
  }
  // What the stream of the device is called, with work left on it.
  Stream busy(int device, Stream stream = kStream) {
    base->machine().queue_work(device, stream);
    return driver.stream_of(device, stream);
  }
  void fail(SimCall call) { base->machine().fail({static_cast<uint32_t>(call), kFailure, 0, 1}); }

  const std::shared_ptr<SimDriver> base = std::make_shared<SimDriver>(SimOptions{GiB, 3});
  PinnedDriver driver{base};
  uint64_t event = 0;
};

TEST_F(PinnedDriverTest, IsOneDeviceWithTheMemoryOfTheMachine) {
  EXPECT_EQ(driver.device_count(), 1);
  EXPECT_FALSE(driver.supports_virtual_memory());
  EXPECT_FALSE(driver.supports_memory_pools());
  EXPECT_FALSE(driver.has_host_memory());
  uint64_t free = 0;
  uint64_t total = 0;
  ASSERT_EQ(driver.memory_info(0, &free, &total), kSuccess);
  EXPECT_GT(free, 0u);
  EXPECT_GT(total, free);
  Address address = 0;
  EXPECT_EQ(driver.reserve(0, MiB, &address), kDriverNotSupported);
}

TEST_F(PinnedDriverTest, GivesMemoryThatTheHostCanWrite) {
  Address address = 0;
  ASSERT_EQ(driver.allocate(0, MiB, &address), kSuccess);
  reinterpret_cast<char*>(address)[MiB - 1] = 1;
  EXPECT_EQ(driver.free(0, address), kSuccess);
  EXPECT_EQ(calls(), "host_alloc 1048576\nhost_free\n");
}

TEST_F(PinnedDriverTest, TimesTheCallsThatWork) {
  Address address = 0;
  fail(SimCall::kHostAllocate);
  EXPECT_EQ(driver.allocate(0, MiB, &address), kFailure);
  ASSERT_EQ(driver.allocate(0, MiB, &address), kSuccess);
  fail(SimCall::kHostFree);
  EXPECT_EQ(driver.free(0, address), kFailure);
  EXPECT_EQ(driver.times().free.count, 0);
  base->machine().set_latency(static_cast<uint32_t>(SimCall::kHostFree), 2'000'000);
  EXPECT_EQ(driver.free(0, address), kSuccess);
  const PinnedDriver::Times times = driver.times();
  EXPECT_EQ(times.allocate.count, 1);
  EXPECT_EQ(times.free.count, 1);
  EXPECT_GE(times.free.min, 2000);
  EXPECT_EQ(times.free.total, times.free.max);
  driver.reset_times();
  EXPECT_EQ(driver.times().free.count, 0);
  EXPECT_EQ(driver.times().free.max, 0);
}

TEST_F(PinnedDriverTest, CallsStreamsOfTheFirstDeviceAsItDoesAndGivesOthersNamesOfTheirOwn) {
  std::set<Stream> names;
  for (const int device : {0, 1, 2}) {
    for (const Stream stream : {Stream{0}, Stream{1}, kPerThreadStream, kStream, kAllStreams}) {
      const Stream name = driver.stream_of(device, stream);
      EXPECT_EQ(driver.stream_of(device, stream), name);
      EXPECT_EQ(name == stream, device == 0);
      EXPECT_NE(name, PinnedDriver::kHost);
      names.insert(name);
    }
  }
  EXPECT_EQ(names.size(), 15u);
}

TEST_F(PinnedDriverTest, RecordsEventsOnTheStreamsOfAllDevices) {
  for (const int device : {0, 1, 2}) {
    const Stream name = busy(device);
    ASSERT_EQ(driver.event_record(0, event, name), kSuccess);
    EXPECT_EQ(driver.event_query(0, event), kNotReady);
    for (const int other : {0, 1, 2}) {
      if (other != device) base->machine().finish_device(other);
    }
    EXPECT_EQ(driver.event_query(0, event), kNotReady);
    base->machine().finish_stream(device, kStream);
    EXPECT_EQ(driver.event_query(0, event), kSuccess);
  }
  // It moves from device to device.
  EXPECT_EQ(calls(),
            "event_create\nevent_record 50\n"
            "event_create\nevent_destroy\nevent_record 50\n"
            "event_create\nevent_destroy\nevent_record 50\n");
  EXPECT_EQ(driver.event_destroy(0, event), kSuccess);
  EXPECT_EQ(calls(), "event_destroy\n");
}

TEST_F(PinnedDriverTest, UsesAnEventOfADeviceAgain) {
  for (const Stream stream : {kStream, Stream{0x60}})
    ASSERT_EQ(driver.event_record(0, event, driver.stream_of(2, stream)), kSuccess);
  EXPECT_EQ(calls(), "event_create\nevent_record 50\nevent_record 60\n");
  EXPECT_EQ(driver.event_destroy(0, event), kSuccess);
}

TEST_F(PinnedDriverTest, KeepsAnEventThatCannotMove) {
  ASSERT_EQ(driver.event_record(0, event, busy(1)), kSuccess);
  fail(SimCall::kEventCreate);
  EXPECT_EQ(driver.event_record(0, event, busy(2)), kFailure);
  base->machine().finish_device(2);
  EXPECT_EQ(driver.event_query(0, event), kNotReady);
  base->machine().finish_device(1);
  EXPECT_EQ(driver.event_query(0, event), kSuccess);
  fail(SimCall::kEventQuery);
  EXPECT_EQ(driver.event_query(0, event), kFailure);
  EXPECT_EQ(driver.event_destroy(0, event), kSuccess);
  calls();
  const auto lock = base->machine().enter();
  for (const int device : {0, 1, 2})
    EXPECT_FALSE(base->machine().at(device).streams.event_stream(1 << 8).has_value());
}

TEST_F(PinnedDriverTest, AsksNothingForAnEventThatWasNotRecordedOrIsTheHosts) {
  EXPECT_EQ(driver.event_query(0, event), kSuccess);
  EXPECT_EQ(driver.event_synchronize(0, event), kSuccess);
  EXPECT_EQ(driver.event_record(0, event, PinnedDriver::kHost), kSuccess);
  EXPECT_EQ(driver.event_query(0, event), kSuccess);
  EXPECT_EQ(driver.stream_synchronize(0, PinnedDriver::kHost), kSuccess);
  EXPECT_EQ(driver.event_destroy(0, event), kSuccess);
  EXPECT_EQ(calls(), "");
}

TEST_F(PinnedDriverTest, WaitsForStreamsAndEventsOfTheirDevice) {
  const Stream first = busy(1);
  const Stream second = busy(2);
  ASSERT_EQ(driver.event_record(0, event, second), kSuccess);
  EXPECT_EQ(driver.stream_synchronize(0, first), kSuccess);
  EXPECT_EQ(driver.event_query(0, event), kNotReady);
  EXPECT_EQ(driver.event_synchronize(0, event), kSuccess);
  EXPECT_EQ(driver.event_query(0, event), kSuccess);
  EXPECT_EQ(driver.event_destroy(0, event), kSuccess);
}

TEST_F(PinnedDriverTest, WaitsForAllDevicesAsForOne) {
  ASSERT_EQ(driver.event_record(0, event, busy(2)), kSuccess);
  fail(SimCall::kSynchronize);
  EXPECT_EQ(driver.device_synchronize(0), kFailure);
  EXPECT_EQ(driver.event_query(0, event), kNotReady);
  EXPECT_EQ(driver.device_synchronize(0), kSuccess);
  EXPECT_EQ(driver.event_query(0, event), kSuccess);
  EXPECT_EQ(driver.event_destroy(0, event), kSuccess);
}

TEST_F(PinnedDriverTest, TellsWhetherAStreamOfADeviceIsCaptured) {
  base->machine().begin_capture(1, kStream, 7);
  CaptureInfo info;
  ASSERT_EQ(driver.capture_info(0, driver.stream_of(1, kStream), &info), kSuccess);
  EXPECT_TRUE(info.capturing);
  EXPECT_EQ(info.capture_id, 7u);
  for (const Stream other :
       {driver.stream_of(0, kStream), driver.stream_of(2, kStream), PinnedDriver::kHost}) {
    ASSERT_EQ(driver.capture_info(0, other, &info), kSuccess);
    EXPECT_FALSE(info.capturing);
  }
}

TEST_F(PinnedDriverTest, PassesOnWhatCodesAreCalled) {
  EXPECT_EQ(driver.error_text(2), base->error_text(2));
  base->machine().set_pending_error(kFailure);
  EXPECT_EQ(driver.take_pending_error(0), kFailure);
  EXPECT_EQ(driver.take_pending_error(0), kSuccess);
}

}  // namespace
}  // namespace cachalot
