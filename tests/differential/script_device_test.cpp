// SPDX-License-Identifier: MIT OR Apache-2.0
#include "script_device.h"

#include <gtest/gtest.h>

namespace cachalot::differential {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

class ScriptDeviceTest : public testing::Test {
 protected:
  ScriptDeviceTest() { device.set_memory(10 * kMiB, 1); }

  int32_t allocate(uint64_t size) { return ops.allocate(&device, 0, size, &address); }
  int32_t create(uint64_t size, int32_t type) {
    return ops.create(&device, 0, size, type, 1, &handle);
  }
  cachalot_capture_info capture_of(cachalot_stream stream) {
    cachalot_capture_info info{};
    ops.capture_info(&device, 0, stream, &info);
    return info;
  }
  std::string last_line() const {
    return transcript.lines().empty() ? "" : transcript.lines().back().text;
  }

  Transcript transcript;
  ScriptDevice device{transcript};
  const cachalot_device_ops ops = ScriptDevice::driver_functions();
  cachalot_address address = 0;
  uint64_t handle = 0;
  uint64_t event = 0;
};

TEST_F(ScriptDeviceTest, HandsOutTheRecordedAddressesInOrder) {
  const std::vector<std::string_view> expected = {
      "D malloc 1048576 oom", "D malloc 1048576 7a00",          "D reserve 2097152 9a000000",
      "D malloc 512 error 2", "T segment_alloc 7a00 1048576 0", "D malloc 512 700000000000"};
  device.expect_addresses(expected);
  EXPECT_EQ(allocate(kMiB), 0);
  EXPECT_EQ(address, 0x7a00u);
  EXPECT_EQ(last_line(), "D malloc 1048576 7a00");
  EXPECT_EQ(allocate(512), 0);
  EXPECT_EQ(address, 0x700000000000u);
  EXPECT_EQ(ops.reserve(&device, 0, 2 * kMiB, &address), 0);
  EXPECT_EQ(last_line(), "D reserve 2097152 9a000000");
}

TEST_F(ScriptDeviceTest, MakesUpDistinctAddressesWhereNoneIsRecordedOrTheRecordedOneIsTaken) {
  EXPECT_EQ(allocate(kMiB), 0);
  const cachalot_address first = address;
  EXPECT_EQ(allocate(kMiB), 0);
  EXPECT_NE(address, first);
  const std::string line = "D malloc 1048576 " + hex(first + 512);
  const std::vector<std::string_view> expected = {line};
  device.expect_addresses(expected);
  EXPECT_EQ(allocate(kMiB), 0);
  EXPECT_NE(address, first + 512);
}

TEST_F(ScriptDeviceTest, RefusesWhatExceedsItsMemory) {
  EXPECT_EQ(allocate(10 * kMiB), 0);
  EXPECT_EQ(ops.free(&device, 0, address), 0);
  EXPECT_EQ(allocate(10 * kMiB + 1), CACHALOT_DRIVER_OUT_OF_MEMORY);
  EXPECT_EQ(last_line(), "D malloc 10485761 oom");
  EXPECT_EQ(create(8 * kMiB, CACHALOT_HANDLE_NONE), 0);
  EXPECT_EQ(allocate(4 * kMiB), CACHALOT_DRIVER_OUT_OF_MEMORY);
  uint64_t free_bytes = 0;
  uint64_t total = 0;
  EXPECT_EQ(ops.memory_info(&device, 0, &free_bytes, &total), 0);
  EXPECT_EQ(free_bytes, 2 * kMiB);
  EXPECT_EQ(total, 10 * kMiB);
}

TEST_F(ScriptDeviceTest, FailsAfterTheOrderedNumberOfSuccesses) {
  device.fail_allocations(2, 1);
  EXPECT_EQ(allocate(512), 0);
  EXPECT_EQ(allocate(512), CACHALOT_DRIVER_OUT_OF_MEMORY);
  EXPECT_EQ(create(2 * kMiB, CACHALOT_HANDLE_NONE), CACHALOT_DRIVER_OUT_OF_MEMORY);
  EXPECT_EQ(allocate(512), 0);
  device.fail_once(700, 1);
  EXPECT_EQ(ops.reserve(&device, 0, kMiB, &address), 0);
  EXPECT_EQ(allocate(512), 700);
  EXPECT_EQ(last_line(), "D malloc 512 error 700");
  EXPECT_EQ(allocate(512), 0);
}

TEST_F(ScriptDeviceTest, RefusesFabricPagesAndOddPages) {
  device.set_fabric_result(801);
  EXPECT_EQ(create(2 * kMiB, CACHALOT_HANDLE_FABRIC), 801);
  EXPECT_STREQ(ops.error_text(&device, 801), "operation not supported");
  EXPECT_EQ(create(3 * kMiB, CACHALOT_HANDLE_POSIX_FD), CACHALOT_DRIVER_INVALID_VALUE);
  EXPECT_EQ(create(2 * kMiB, CACHALOT_HANDLE_POSIX_FD), 0);
  device.show("handles");
  EXPECT_EQ(create(2 * kMiB, CACHALOT_HANDLE_POSIX_FD), 0);
  EXPECT_EQ(transcript.lines()[transcript.lines().size() - 2].text,
            "D handle type 1 rdma 1 device 0");
}

TEST_F(ScriptDeviceTest, KeepsEventsPendingUntilTheWorkBeforeThemIsDone) {
  device.begin_work(0x1000);
  ops.event_create(&device, 0, &event);
  ops.event_record(&device, 0, event, 0x1000);
  device.begin_work(0x1000);
  EXPECT_EQ(ops.event_query(&device, 0, event), CACHALOT_DRIVER_NOT_READY);
  device.finish_oldest(0x1000);
  EXPECT_EQ(ops.event_query(&device, 0, event), 0);
  ops.event_record(&device, 0, event, 0x1000);
  EXPECT_EQ(ops.event_query(&device, 0, event), CACHALOT_DRIVER_NOT_READY);
  ops.event_synchronize(&device, 0, event);
  EXPECT_EQ(ops.event_query(&device, 0, event), 0);
}

TEST_F(ScriptDeviceTest, LosesAPendingErrorInAFailedQuery) {
  device.begin_work(0);
  ops.event_create(&device, 0, &event);
  ops.event_record(&device, 0, event, 0);
  device.set_pending_error(700);
  EXPECT_EQ(ops.take_pending_error(&device, 0), 700);
  EXPECT_EQ(ops.take_pending_error(&device, 0), 0);
  device.set_pending_error(700);
  ops.event_query(&device, 0, event);
  EXPECT_EQ(ops.take_pending_error(&device, 0), 0);
}

TEST_F(ScriptDeviceTest, JoinsEndNodesOfForkedStreams) {
  EXPECT_EQ(capture_of(0).capturing, 0);
  device.begin_capture(0, 3);
  device.add_node(0);
  device.fork(0, 0x1000);
  device.add_node(0x1000);
  device.add_node(0);
  device.join(0, 0x1000);
  const cachalot_capture_info info = capture_of(0);
  EXPECT_EQ(info.capturing, 1);
  EXPECT_EQ(info.capture_id, 3u);
  ASSERT_EQ(info.node_count, 2u);
  const uint64_t* nodes = nullptr;
  size_t count = 0;
  ops.node_dependencies(&device, 0, info.nodes[1], &nodes, &count);
  ASSERT_EQ(count, 1u);
  EXPECT_EQ(capture_of(0x1000).capturing, 1);
  device.end_capture(3);
  EXPECT_EQ(capture_of(0x1000).capturing, 0);
}

TEST_F(ScriptDeviceTest, NamesWhatIsStillObtained) {
  EXPECT_EQ(device.leftovers(), "");
  allocate(512);
  create(2 * kMiB, CACHALOT_HANDLE_NONE);
  ops.event_create(&device, 0, &event);
  EXPECT_EQ(device.leftovers(), "1 segments, 1 pages, 1 events");
  ops.free(&device, 0, address);
  ops.release(&device, 0, handle);
  ops.event_destroy(&device, 0, event);
  EXPECT_EQ(device.leftovers(), "");
}

}  // namespace
}  // namespace cachalot::differential
