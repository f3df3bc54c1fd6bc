// SPDX-License-Identifier: MIT OR Apache-2.0
#include "device/sim_driver.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <thread>

#include "base/error.h"
#include "device/pool_attributes.h"

namespace cachalot {
namespace {

constexpr Address kFirst = 0x700000000000;
constexpr uint64_t kPage = 2 * MiB;

std::string take_calls(SimDriver& driver) {
  std::string text(driver.machine().take_calls(nullptr, 0), '\0');
  driver.machine().take_calls(text.data(), text.size() + 1);
  return text;
}

class Sim : public testing::Test {
 protected:
  Sim() { driver.machine().log_calls(kLogCalls); }

  std::string calls() { return take_calls(driver); }
  uint64_t free_bytes() {
    uint64_t free = 0;
    uint64_t total = 0;
    EXPECT_EQ(driver.memory_info(0, &free, &total), kSuccess);
    EXPECT_EQ(total, 100 * MiB);
    return free;
  }
  DriverCode allocate(uint64_t size) { return driver.allocate(0, size, &address); }
  DriverCode create(uint64_t size, HandleType type = HandleType::kNone) {
    return driver.create(0, size, type, false, &handle);
  }

  SimDriver driver{SimOptions{100 * MiB, 1}};
  Address address = 0;
  uint64_t handle = 0;
  uint64_t event = 0;
};

// ---- Memory

TEST_F(Sim, HandsOutTheLowestFreeAddresses) {
  EXPECT_EQ(allocate(1), kSuccess);
  EXPECT_EQ(address, kFirst);
  EXPECT_EQ(allocate(3 * MiB), kSuccess);
  EXPECT_EQ(address, kFirst + kPage);
  EXPECT_EQ(driver.free(0, kFirst), kSuccess);
  EXPECT_EQ(allocate(2 * MiB), kSuccess);
  EXPECT_EQ(address, kFirst);
  EXPECT_EQ(calls(),
            "malloc 1 700000000000\n"
            "malloc 3145728 700000200000\n"
            "free 700000000000\n"
            "malloc 2097152 700000000000\n");
}

TEST_F(Sim, CountsSizesAsTheyWereAskedFor) {
  EXPECT_EQ(allocate(1000), kSuccess);
  EXPECT_EQ(free_bytes(), 100 * MiB - 1000);
  EXPECT_EQ(allocate(100 * MiB - 999), kDriverOutOfMemory);
  EXPECT_EQ(allocate(100 * MiB - 1000), kSuccess);
  EXPECT_EQ(free_bytes(), 0u);
  EXPECT_EQ(allocate(1), kDriverOutOfMemory);
  EXPECT_EQ(allocate(UINT64_MAX), kDriverOutOfMemory);
}

TEST_F(Sim, LeavesTheResultOfARefusedCallAlone) {
  address = 77;
  EXPECT_EQ(allocate(101 * MiB), kDriverOutOfMemory);
  EXPECT_EQ(address, 77u);
  EXPECT_EQ(calls(), "malloc 105906176 oom\n");
}

TEST_F(Sim, RefusesToFreeWhatIsNotAllocatedWithoutALine) {
  EXPECT_EQ(driver.free(0, 0x1234), kInvalidValue);
  EXPECT_EQ(driver.reserve(0, kPage, &address), kSuccess);
  EXPECT_EQ(driver.free(0, address), kInvalidValue) << "a reservation";
  EXPECT_EQ(driver.free(0, 0), kSuccess);
  EXPECT_EQ(calls(), "reserve 2097152 700000000000\n");
}

TEST_F(Sim, HandsOutGivenAddressesToSegmentsAndReservations) {
  const Address given[] = {0xa00000, 0xb00000, 0xa00000};
  driver.machine().give_addresses(0, given);
  EXPECT_EQ(allocate(512), kSuccess);
  EXPECT_EQ(driver.reserve(0, kPage, &address), kSuccess);
  EXPECT_EQ(driver.free(0, 0xa00000), kSuccess);
  EXPECT_EQ(allocate(512), kSuccess) << "an address that was freed";
  EXPECT_EQ(allocate(512), kSuccess);
  EXPECT_EQ(calls(),
            "malloc 512 a00000\n"
            "reserve 2097152 b00000\n"
            "free a00000\n"
            "malloc 512 a00000\n"
            "malloc 512 700000000000\n");
}

TEST_F(Sim, KeepsGivenAddressesForCallsThatWork) {
  const Address given[] = {0xa00000};
  driver.machine().give_addresses(0, given);
  driver.machine().fail({static_cast<uint32_t>(SimCall::kAllocate), kDriverOutOfMemory, 0, 1});
  EXPECT_EQ(allocate(512), kDriverOutOfMemory);
  EXPECT_EQ(allocate(101 * MiB), kDriverOutOfMemory);
  EXPECT_EQ(allocate(512), kSuccess);
  EXPECT_EQ(address, 0xa00000u);
}

TEST(SimDevices, HaveAccountsAndAddressesOfTheirOwn) {
  SimDriver driver({10 * MiB, 2});
  driver.machine().log_calls(kLogCalls);
  Address first = 0;
  Address second = 0;
  EXPECT_EQ(driver.allocate(0, 10 * MiB, &first), kSuccess);
  EXPECT_EQ(driver.allocate(1, 10 * MiB, &second), kSuccess);
  EXPECT_EQ(first, kFirst);
  EXPECT_EQ(second, kFirst + (uint64_t{1} << 42));
  EXPECT_EQ(driver.free(0, second), kInvalidValue);
  EXPECT_EQ(driver.set_access(0, first, kPage, 1), kSuccess);
  EXPECT_EQ(driver.enable_peer(0, 1), kSuccess);
  EXPECT_EQ(take_calls(driver),
            "malloc 10485760 700000000000\n"
            "malloc 10485760 740000000000\n"
            "access 700000000000 2097152 device 1\n"
            "peer_access 0 1\n");
}

TEST(SimDevices, MustBeAReasonableNumber) {
  for (const int count : {-1, 0, 1025}) {
    EXPECT_THROW(SimDriver({1 * GiB, count}), Error) << count;
  }
  EXPECT_EQ(SimDriver({1 * GiB, 1024}).device_count(), 1024);
}

TEST(SimDevices, HaveRoomForReservationsBeyondTheirShareIfNoneFollows) {
  SimDriver driver({80 * GiB, 1});
  Address address = 0;
  for (int i = 0; i < 100; i++) EXPECT_EQ(driver.reserve(0, 90 * GiB, &address), kSuccess);
  SimDriver two({80 * GiB, 2});
  DriverCode code = kSuccess;
  for (int i = 0; i < 100 && code == kSuccess; i++) code = two.reserve(0, 90 * GiB, &address);
  EXPECT_EQ(code, kDriverOutOfMemory);
}

// ---- Virtual memory

TEST_F(Sim, WritesOneLineForEachCallOfVirtualMemory) {
  driver.machine().log_calls(kLogCalls | kLogHandles);
  ShareableHandle shareable;
  EXPECT_EQ(driver.reserve(0, 4 * kPage, &address), kSuccess);
  EXPECT_EQ(driver.create(0, kPage, HandleType::kPosixFd, true, &handle), kSuccess);
  EXPECT_EQ(driver.map(0, address, kPage, handle), kSuccess);
  EXPECT_EQ(driver.set_access(0, address, kPage, 0), kSuccess);
  EXPECT_EQ(driver.export_handle(0, handle, HandleType::kPosixFd, &shareable), kSuccess);
  uint64_t imported = 0;
  EXPECT_EQ(driver.import_handle(0, shareable, HandleType::kPosixFd, &imported), kSuccess);
  EXPECT_NE(imported, handle);
  EXPECT_EQ(driver.unmap(0, address, kPage), kSuccess);
  EXPECT_EQ(free_bytes(), 100 * MiB - kPage) << "an imported page does not count";
  EXPECT_EQ(driver.release(0, handle), kSuccess);
  EXPECT_EQ(driver.release(0, imported), kSuccess);
  EXPECT_EQ(driver.unreserve(0, address, 4 * kPage), kSuccess);
  EXPECT_EQ(free_bytes(), 100 * MiB);
  EXPECT_EQ(calls(),
            "reserve 8388608 700000000000\n"
            "handle type 1 rdma 1 device 0\n"
            "create 2097152\n"
            "map 700000000000 2097152\n"
            "access 700000000000 2097152\n"
            "export type 1\n"
            "import type 1\n"
            "unmap 700000000000 2097152\n"
            "release\n"
            "release\n"
            "unreserve 700000000000 8388608\n");
}

TEST_F(Sim, ReservesMoreThanTheDeviceHas) {
  EXPECT_EQ(driver.reserve(0, 10 * GiB, &address), kSuccess);
  EXPECT_EQ(free_bytes(), 100 * MiB);
}

TEST_F(Sim, ChecksAPageForItsSizeThenFabricThenOrdersThenRoom) {
  driver.machine().set_fabric(0, 1, 800);
  driver.machine().fail({static_cast<uint32_t>(SimCall::kCreate), kDriverOutOfMemory, 0, 1});
  driver.machine().fail({static_cast<uint32_t>(SimCall::kCreate), 999, 0, 1});
  EXPECT_EQ(create(kPage + 1, HandleType::kFabric), kInvalidValue);
  EXPECT_EQ(create(200 * MiB, HandleType::kFabric), 800);
  EXPECT_EQ(create(200 * MiB), 999);
  EXPECT_EQ(create(kPage), kDriverOutOfMemory);
  EXPECT_EQ(create(200 * MiB), kDriverOutOfMemory);
  EXPECT_EQ(create(kPage), kSuccess);
  driver.machine().set_fabric(0, 1, 0);
  EXPECT_EQ(create(kPage, HandleType::kFabric), kSuccess);
  EXPECT_EQ(calls(),
            "create 2097153 error 1\n"
            "create 209715200 error 800\n"
            "create 209715200 error 999\n"
            "create 2097152 oom\n"
            "create 209715200 oom\n"
            "create 2097152\n"
            "create 2097152\n");
}

TEST_F(Sim, RefusesPagesThatAreNotThere) {
  EXPECT_EQ(driver.map(0, kFirst, kPage, 5), kInvalidValue);
  EXPECT_EQ(driver.unmap(0, kFirst, kPage), kInvalidValue);
  EXPECT_EQ(driver.release(0, 5), kInvalidValue);
  EXPECT_EQ(driver.unreserve(0, kFirst, kPage), kInvalidValue);
  ShareableHandle shareable;
  EXPECT_EQ(driver.export_handle(0, 5, HandleType::kPosixFd, &shareable), kInvalidValue);
}

TEST_F(Sim, SaysWhetherTheDeviceIsPartOfAFabric) {
  int32_t state = -1;
  EXPECT_EQ(driver.fabric_state(0, &state), kSuccess);
  EXPECT_EQ(state, 0);
  driver.machine().set_fabric(0, 1, 0);
  EXPECT_EQ(driver.fabric_state(0, &state), kSuccess);
  EXPECT_EQ(state, 1);
  driver.machine().set_fabric(0, -1, 0);
  EXPECT_NE(driver.fabric_state(0, &state), kSuccess);
}

// ---- Work and events

TEST_F(Sim, KeepsAnEventPendingUntilTheWorkBeforeItIsDone) {
  const Stream stream = 0x10;
  EXPECT_EQ(driver.event_create(0, &event), kSuccess);
  EXPECT_EQ(driver.event_query(0, event), kSuccess) << "never recorded";
  driver.machine().queue_work(0, stream);
  driver.machine().queue_work(0, stream);
  EXPECT_EQ(driver.event_record(0, event, stream), kSuccess);
  driver.machine().queue_work(0, stream);
  EXPECT_EQ(driver.event_query(0, event), kNotReady);
  driver.machine().finish_oldest(0, stream);
  EXPECT_EQ(driver.event_query(0, event), kNotReady);
  driver.machine().finish_oldest(0, stream);
  EXPECT_EQ(driver.event_query(0, event), kSuccess) << "the third piece came later";
}

TEST_F(Sim, DoesTheWorkThatIsWaitedFor) {
  uint64_t later = 0;
  driver.event_create(0, &event);
  driver.event_create(0, &later);
  driver.machine().queue_work(0, 1);
  driver.event_record(0, event, 1);
  driver.machine().queue_work(0, 1);
  driver.event_record(0, later, 1);
  EXPECT_EQ(driver.event_synchronize(0, event), kSuccess);
  EXPECT_EQ(driver.event_query(0, event), kSuccess);
  EXPECT_EQ(driver.event_query(0, later), kNotReady);
  EXPECT_EQ(driver.stream_synchronize(0, 2), kSuccess);
  EXPECT_EQ(driver.event_query(0, later), kNotReady) << "another stream";
  EXPECT_EQ(driver.stream_synchronize(0, 1), kSuccess);
  EXPECT_EQ(driver.event_query(0, later), kSuccess);
  driver.machine().queue_work(0, 0xabc);
  driver.event_record(0, later, 0xabc);
  EXPECT_EQ(driver.device_synchronize(0), kSuccess);
  EXPECT_EQ(driver.event_query(0, later), kSuccess);
  driver.event_destroy(0, later);
  EXPECT_EQ(calls(),
            "event_create\n"
            "event_create\n"
            "event_record 1\n"
            "event_record 1\n"
            "event_sync 1\n"
            "stream_sync 2\n"
            "stream_sync 1\n"
            "event_record abc\n"
            "device_sync\n"
            "event_destroy\n");
}

TEST_F(Sim, FinishesStreamsAndDevicesOnRequest) {
  driver.event_create(0, &event);
  driver.machine().queue_work(0, 7);
  driver.event_record(0, event, 7);
  driver.machine().finish_stream(0, 8);
  EXPECT_EQ(driver.event_query(0, event), kNotReady);
  driver.machine().finish_stream(0, 7);
  EXPECT_EQ(driver.event_query(0, event), kSuccess);
  driver.machine().queue_work(0, 7);
  driver.event_record(0, event, 7);
  driver.machine().finish_device(0);
  EXPECT_EQ(driver.event_query(0, event), kSuccess);
  driver.machine().finish_oldest(0, 7);
  driver.machine().queue_work(0, 7);
  driver.event_record(0, event, 7);
  EXPECT_EQ(driver.event_query(0, event), kNotReady) << "finishing nothing does not count ahead";
}

TEST_F(Sim, KeepsAnEventOfAllStreamsPendingUntilAllWorkBeforeItIsDone) {
  driver.machine().log_calls(kLogCalls | kLogQueries);
  driver.event_create(0, &event);
  for (const Stream stream : {7, 8}) driver.machine().queue_work(0, stream);
  EXPECT_EQ(driver.event_record(0, event, kAllStreams), kSuccess);
  for (const Stream stream : {7, 9}) driver.machine().queue_work(0, stream);
  driver.machine().finish_oldest(0, 7);
  EXPECT_EQ(driver.event_query(0, event), kNotReady);
  driver.machine().finish_stream(0, 8);
  EXPECT_EQ(driver.event_query(0, event), kSuccess) << "the rest came later";
  driver.event_record(0, event, kAllStreams);
  EXPECT_EQ(driver.stream_synchronize(0, kAllStreams), kSuccess);
  EXPECT_EQ(driver.event_query(0, event), kSuccess);
  EXPECT_EQ(calls(),
            "event_create\n"
            "event_record ffffffffffffffff\n"
            "event_query ffffffffffffffff\n"
            "event_query ffffffffffffffff\n"
            "event_record ffffffffffffffff\n"
            "stream_sync ffffffffffffffff\n"
            "event_query ffffffffffffffff\n");
}

TEST_F(Sim, RefusesEventsThatAreNotThere) {
  EXPECT_EQ(driver.event_record(0, 5, 1), kInvalidValue);
  EXPECT_EQ(driver.event_query(0, 5), kInvalidValue);
  EXPECT_EQ(driver.event_synchronize(0, 5), kInvalidValue);
  EXPECT_EQ(driver.event_destroy(0, 5), kInvalidValue);
}

// ---- Captures

TEST_F(Sim, SaysWhatAStreamsNextNodeDependsOn) {
  CaptureInfo info;
  EXPECT_EQ(driver.capture_info(0, 1, &info), kSuccess);
  EXPECT_FALSE(info.capturing);
  driver.machine().begin_capture(0, 1, 5);
  driver.machine().add_node(0, 1);
  driver.machine().add_node(0, 1);
  EXPECT_EQ(driver.capture_info(0, 1, &info), kSuccess);
  EXPECT_TRUE(info.capturing);
  EXPECT_EQ(info.capture_id, 5u);
  EXPECT_EQ(info.graph, 0x50u);
  EXPECT_EQ(info.nodes, std::vector<uint64_t>{0x9020});
  std::vector<uint64_t> nodes;
  EXPECT_EQ(driver.node_dependencies(0, 0x9020, &nodes), kSuccess);
  EXPECT_EQ(nodes, std::vector<uint64_t>{0x9010});
  EXPECT_EQ(driver.node_dependencies(0, 0x9010, &nodes), kSuccess);
  EXPECT_TRUE(nodes.empty());
  for (const uint64_t node : {0x0u, 0x9000u, 0x9018u, 0x9030u}) {
    nodes = {1};
    EXPECT_EQ(driver.node_dependencies(0, node, &nodes), kSuccess);
    EXPECT_TRUE(nodes.empty()) << node;
  }
}

TEST_F(Sim, ForksAndJoinsCaptures) {
  CaptureInfo info;
  driver.machine().begin_capture(0, 1, 5);
  driver.machine().add_node(0, 1);  // 9010
  driver.machine().fork_capture(0, 1, 2);
  driver.machine().add_node(0, 2);  // 9020, behind 9010
  driver.machine().add_node(0, 1);  // 9030, behind 9010
  driver.machine().join_capture(0, 1, 2);
  driver.machine().join_capture(0, 1, 2);  // Adds nothing the second time.
  driver.machine().join_capture(0, 1, 1);
  driver.capture_info(0, 1, &info);
  EXPECT_EQ(info.nodes, (std::vector<uint64_t>{0x9030, 0x9020}));
  driver.capture_info(0, 2, &info);
  EXPECT_EQ(info.capture_id, 5u);
  EXPECT_EQ(info.nodes, std::vector<uint64_t>{0x9020});
  driver.machine().add_node(0, 1);  // 9040
  std::vector<uint64_t> nodes;
  driver.node_dependencies(0, 0x9040, &nodes);
  EXPECT_EQ(nodes, (std::vector<uint64_t>{0x9030, 0x9020}));
  driver.machine().end_capture(0, 5);
  for (const Stream stream : {Stream{1}, Stream{2}}) {
    driver.capture_info(0, stream, &info);
    EXPECT_FALSE(info.capturing);
    EXPECT_EQ(info.capture_id, 0u);
    EXPECT_TRUE(info.nodes.empty());
  }
}

TEST_F(Sim, EndsOnlyTheNamedCapture) {
  CaptureInfo info;
  driver.machine().begin_capture(0, 1, 5);
  driver.machine().begin_capture(0, 2, 6);
  driver.machine().end_capture(0, 5);
  driver.capture_info(0, 2, &info);
  EXPECT_TRUE(info.capturing);
  EXPECT_THROW(driver.machine().begin_capture(0, 2, 0), Error);
}

TEST_F(Sim, ExchangesTheCaptureMode) {
  driver.machine().log_calls(kLogCaptureModes);
  int32_t mode = kRelaxedCaptureMode;
  EXPECT_EQ(driver.exchange_capture_mode(0, &mode), kSuccess);
  EXPECT_EQ(mode, 0);
  EXPECT_EQ(driver.exchange_capture_mode(0, &mode), kSuccess);
  EXPECT_EQ(mode, kRelaxedCaptureMode);
  EXPECT_EQ(calls(), "capture_mode 2\ncapture_mode 0\n");
}

// ---- Failures

// A call of each kind, each on something that is there, so that only an order can make it fail.
struct CallOfKind {
  SimCall kind;
  std::function<DriverCode()> make;
  const char* line;  // what a failure leaves in the log
};

class SimFailures : public Sim {
 protected:
  SimFailures() {
    EXPECT_EQ(allocate(512), kSuccess);
    EXPECT_EQ(driver.reserve(0, kPage, &range), kSuccess);
    EXPECT_EQ(create(kPage), kSuccess);
    EXPECT_EQ(driver.event_create(0, &event), kSuccess);
    EXPECT_EQ(driver.event_record(0, event, 3), kSuccess);
    EXPECT_EQ(driver.pool_allocate(0, 8, 3, &pooled), kSuccess);
    EXPECT_EQ(driver.host_allocate(8, kOrigin, 1, &pinned), kSuccess);
    driver.machine().log_calls(kLogEverything);
    calls();
  }

  std::vector<CallOfKind> memory_calls() {
    return {
        {SimCall::kAllocate, [this] { return driver.allocate(0, 8, &other); }, "malloc 8"},
        {SimCall::kFree, [this] { return driver.free(0, address); }, "free 700000000000"},
        {SimCall::kReserve, [this] { return driver.reserve(0, 8, &other); }, "reserve 8"},
        {SimCall::kCreate, [this] { return driver.create(0, kPage, kType, false, &other_handle); },
         "handle type 1 rdma 0 device 0\ncreate 2097152"},
        {SimCall::kMap, [this] { return driver.map(0, range, kPage, handle); },
         "map 700000200000 2097152"},
        {SimCall::kSetAccess, [this] { return driver.set_access(0, range, kPage, 0); },
         "access 700000200000 2097152"},
        {SimCall::kExport, [this] { return driver.export_handle(0, handle, kType, &shareable); },
         "export type 1"},
        {SimCall::kImport,
         [this] { return driver.import_handle(0, shareable, kType, &other_handle); },
         "import type 1"},
        {SimCall::kUnmap, [this] { return driver.unmap(0, range, kPage); },
         "unmap 700000200000 2097152"},
        {SimCall::kRelease, [this] { return driver.release(0, handle); }, "release"},
        {SimCall::kUnreserve, [this] { return driver.unreserve(0, range, kPage); },
         "unreserve 700000200000 2097152"},
    };
  }
  std::vector<CallOfKind> other_calls() {
    return {
        {SimCall::kEventCreate, [this] { return driver.event_create(0, &other_handle); },
         "event_create"},
        {SimCall::kEventRecord, [this] { return driver.event_record(0, event, 3); },
         "event_record 3"},
        {SimCall::kEventQuery, [this] { return driver.event_query(0, event); }, "event_query 3"},
        {SimCall::kEventSynchronize, [this] { return driver.event_synchronize(0, event); },
         "event_sync 3"},
        {SimCall::kSynchronize, [this] { return driver.stream_synchronize(0, 4); },
         "stream_sync 4"},
        {SimCall::kSynchronize, [this] { return driver.device_synchronize(0); }, "device_sync"},
        {SimCall::kCaptureInfo, [this] { return driver.capture_info(0, 1, &info); }, nullptr},
        {SimCall::kEnablePeer, [this] { return driver.enable_peer(0, 0); }, "peer_access 0 0"},
        {SimCall::kMemoryInfo, [this] { return driver.memory_info(0, &other, &other); }, nullptr},
        {SimCall::kCopy, [this] { return driver.copy(0, range, range, 8, 3); }, "copy 8 3"},
        {SimCall::kCopy, [this] { return driver.copy_peer(0, range, 0, range, 8, 3); },
         "copy_peer 0 0 8 3"},
        {SimCall::kFabricState, [this] { return driver.fabric_state(0, &state); }, nullptr},
    };
  }
  std::vector<CallOfKind> pool_calls() {
    return {
        {SimCall::kPoolAllocate, [this] { return driver.pool_allocate(0, 8, 3, &other); },
         "malloc_async 8 3"},
        {SimCall::kPoolFree, [this] { return driver.pool_free(0, pooled, 3); },
         "free_async 700000400000 3"},
        {SimCall::kPoolTrim, [this] { return driver.pool_trim(0, 0); }, "pool_trim 0"},
        {SimCall::kPoolAttribute, [this] { return driver.pool_set_attribute(0, 4, 9); },
         "pool_attribute 4 9"},
        {SimCall::kPoolAttribute, [this] { return driver.pool_get_attribute(0, 7, &other); },
         nullptr},
        {SimCall::kPoolAttribute, [this] { return driver.graph_set_attribute(0, 1, 0); },
         "graph_attribute 1 0"},
        {SimCall::kPoolAttribute, [this] { return driver.graph_get_attribute(0, 1, &other); },
         nullptr},
        {SimCall::kPoolSetAccess, [this] { return driver.pool_set_access(0, 0); }, "pool_access"},
        {SimCall::kStreamCreate, [this] { return driver.stream_create(0, &other); }, nullptr},
        {SimCall::kStreamWait, [this] { return driver.stream_wait_event(0, 4, event); },
         "stream_wait 4"},
    };
  }
  std::vector<CallOfKind> pinned_calls() {
    return {
        {SimCall::kHostAllocate, [this] { return driver.host_allocate(8, kOrigin, 1, &other); },
         "host_alloc 8"},
        {SimCall::kHostFree, [this] { return driver.host_free(pinned, kOrigin); }, "host_free"},
    };
  }
  void expect_failure_then_success(const CallOfKind& call, DriverCode code, const char* outcome) {
    SCOPED_TRACE(sim_call_index(call.kind));
    driver.machine().fail({static_cast<uint32_t>(call.kind), code, 0, 1});
    EXPECT_EQ(call.make(), code);
    EXPECT_EQ(calls(), call.line == nullptr ? "" : std::string(call.line) + outcome);
    EXPECT_EQ(call.make(), kSuccess);
    calls();
  }

  static constexpr HandleType kType = HandleType::kPosixFd;
  static constexpr HostMemoryOrigin kOrigin = HostMemoryOrigin::kAllocated;
  Address range = 0;
  Address pooled = 0;
  Address pinned = 0;
  Address other = 0;
  uint64_t other_handle = 0;
  int32_t state = 0;
  ShareableHandle shareable;
  CaptureInfo info;
};

TEST_F(SimFailures, CanBeOrderedForEachKindOfCallAndChangeNothing) {
  uint32_t kinds = 0;
  for (const auto& list : {memory_calls(), other_calls(), pool_calls(), pinned_calls()}) {
    for (const CallOfKind& call : list) {
      expect_failure_then_success(call, 777, " error 777\n");
      kinds |= static_cast<uint32_t>(call.kind);
    }
  }
  EXPECT_EQ(kinds, kAllSimCalls);
}

TEST(SimPool, CountsWhatIsUsedAndKeepsItUntilItIsTrimmed) {
  SimDriver driver({.capacity = 100});
  const auto value = [&](int32_t attribute) {
    uint64_t bytes = 0;
    EXPECT_EQ(driver.pool_get_attribute(0, attribute, &bytes), kSuccess);
    return bytes;
  };
  Address address = 0;
  EXPECT_EQ(driver.pool_allocate(0, 60, 0, &address), kSuccess);
  EXPECT_EQ(driver.pool_allocate(0, 60, 0, &address), kDriverOutOfMemory);
  EXPECT_EQ(driver.pool_free(0, address + 1, 0), kInvalidValue);
  EXPECT_EQ(driver.pool_free(0, address, 0), kSuccess);
  EXPECT_EQ(value(pool_attribute::kUsedCurrent), 0u);
  EXPECT_EQ(value(pool_attribute::kUsedHigh), 60u);
  EXPECT_EQ(value(pool_attribute::kReservedCurrent), 60u);
  EXPECT_EQ(driver.pool_trim(0, 20), kSuccess);
  EXPECT_EQ(value(pool_attribute::kReservedCurrent), 20u);
  EXPECT_EQ(value(pool_attribute::kReservedHigh), 60u);
  EXPECT_EQ(driver.pool_set_attribute(0, pool_attribute::kReservedHigh, 0), kSuccess);
  EXPECT_EQ(value(pool_attribute::kReservedHigh), 20u);
  uint64_t none = 0;
  EXPECT_EQ(driver.pool_get_attribute(0, pool_attribute::kReleaseThreshold, &none), kInvalidValue);
  EXPECT_EQ(driver.graph_get_attribute(0, 9, &none), kInvalidValue);
}

TEST_F(SimFailures, ReadAsOutOfMemoryWhereTheyAre) {
  for (const CallOfKind& call : memory_calls()) {
    expect_failure_then_success(call, kDriverOutOfMemory, " oom\n");
  }
}

TEST_F(Sim, FailsAfterSomeCallsAndForSome) {
  driver.machine().fail({static_cast<uint32_t>(SimCall::kAllocate), kDriverOutOfMemory, 2, 2});
  std::vector<DriverCode> codes;
  for (int i = 0; i < 6; i++) codes.push_back(allocate(512));
  EXPECT_EQ(codes, (std::vector<DriverCode>{0, 0, 2, 2, 0, 0}));
}

TEST_F(Sim, CountsKindsOfOneFailureTogether) {
  const uint32_t kinds =
      static_cast<uint32_t>(SimCall::kAllocate) | static_cast<uint32_t>(SimCall::kCreate);
  driver.machine().fail({kinds, kDriverOutOfMemory, 1, 1});
  EXPECT_EQ(driver.reserve(0, kPage, &address), kSuccess);
  EXPECT_EQ(create(kPage), kSuccess);
  EXPECT_EQ(allocate(512), kDriverOutOfMemory);
  EXPECT_EQ(create(kPage), kSuccess);
}

TEST_F(Sim, ReportsOtherErrorsBeforeOutOfMemory) {
  const auto kind = static_cast<uint32_t>(SimCall::kAllocate);
  driver.machine().fail({kind, kDriverOutOfMemory, 1, 1});
  driver.machine().fail({kind, 700, 1, 1});
  EXPECT_EQ(allocate(512), kSuccess);
  EXPECT_EQ(allocate(512), 700);
  EXPECT_EQ(allocate(512), kDriverOutOfMemory) << "its turn came when the error had gone";
  EXPECT_EQ(allocate(512), kSuccess);
}

TEST_F(Sim, ReplacesAFailureOfTheSameKindsAndCode) {
  const auto kind = static_cast<uint32_t>(SimCall::kAllocate);
  driver.machine().fail({kind, 700, 0, 5});
  driver.machine().fail({kind, 700, 1, 1});
  EXPECT_EQ(allocate(512), kSuccess);
  EXPECT_EQ(allocate(512), 700);
  EXPECT_EQ(allocate(512), kSuccess);
}

TEST_F(Sim, LeavesErrorsPendingUntilTheyAreTaken) {
  EXPECT_EQ(driver.take_pending_error(0), kSuccess);
  driver.machine().set_pending_error(700);
  EXPECT_EQ(driver.take_pending_error(0), 700);
  EXPECT_EQ(driver.take_pending_error(0), kSuccess);
}

TEST_F(Sim, HasTheErrorTextsOfTheReference) {
  EXPECT_EQ(driver.error_text(1), "invalid argument");
  EXPECT_EQ(driver.error_text(2), "out of memory");
  EXPECT_EQ(driver.error_text(800), "operation not permitted");
  EXPECT_EQ(driver.error_text(801), "operation not supported");
  EXPECT_EQ(driver.error_text(700), "error");
}

// ---- The rest

TEST_F(Sim, ListsProcesses) {
  EXPECT_TRUE(driver.processes(0).empty());
  driver.machine().add_process(0, {42, 1 * GiB});
  ASSERT_EQ(driver.processes(0).size(), 1u);
  EXPECT_EQ(driver.processes(0)[0].pid, 42u);
  EXPECT_EQ(driver.processes(0)[0].used, 1 * GiB);
}

TEST_F(Sim, RefusesControlsOfADeviceThatItDoesNotHave) {
  for (const int device : {-1, 1}) {
    EXPECT_THROW(driver.machine().queue_work(device, 0), Error);
    EXPECT_THROW(driver.machine().give_addresses(device, {}), Error);
    EXPECT_THROW(driver.machine().set_fabric(device, 0, 0), Error);
  }
}

TEST_F(Sim, HandsOutWholeLinesOfItsLog) {
  allocate(1);   // 22 bytes
  allocate(22);  // 23 bytes
  driver.machine().log_calls(0);
  allocate(3);
  char buffer[64] = "untouched";
  EXPECT_EQ(driver.machine().take_calls(nullptr, 0), 45u);
  EXPECT_EQ(driver.machine().take_calls(buffer, 22), 45u);
  EXPECT_STREQ(buffer, "");
  EXPECT_EQ(driver.machine().take_calls(buffer, 44), 45u);
  EXPECT_STREQ(buffer, "malloc 1 700000000000\n");
  EXPECT_EQ(driver.machine().take_calls(buffer, 24), 23u);
  EXPECT_STREQ(buffer, "malloc 22 700000200000\n");
  EXPECT_EQ(driver.machine().take_calls(buffer, 1), 0u);
  EXPECT_STREQ(buffer, "");
}

TEST_F(Sim, LogsOnlyTheWordsThatAreWanted) {
  driver.machine().log_calls(kLogQueries);
  driver.event_create(0, &event);
  driver.event_record(0, event, 0xf);
  driver.event_query(0, event);
  create(kPage);
  EXPECT_EQ(calls(), "event_query f\n");
}

TEST_F(Sim, TakesTheTimeThatIsSet) {
  using Clock = std::chrono::steady_clock;
  for (const int64_t nanoseconds : {50'000, 2'000'000}) {
    driver.machine().set_latency(static_cast<uint32_t>(SimCall::kAllocate),
                                 static_cast<uint64_t>(nanoseconds));
    const auto begin = Clock::now();
    allocate(512);
    EXPECT_GE((Clock::now() - begin).count(), nanoseconds);
  }
  driver.machine().set_latency(kAllSimCalls, 0);
  const auto begin = Clock::now();
  for (int i = 0; i < 10; i++) driver.free(0, 1);
  EXPECT_LT(Clock::now() - begin, std::chrono::milliseconds(1000));
}

TEST_F(Sim, ServesManyThreadsAtOnce) {
  driver.machine().log_calls(0);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; t++) {
    threads.emplace_back([this] {
      for (int i = 0; i < 2000; i++) {
        Address mine = 0;
        ASSERT_EQ(driver.allocate(0, 4096, &mine), kSuccess);
        ASSERT_EQ(driver.free(0, mine), kSuccess);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(free_bytes(), 100 * MiB);
}

}  // namespace
}  // namespace cachalot
