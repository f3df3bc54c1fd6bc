// SPDX-License-Identifier: MIT OR Apache-2.0
// What is recorded of a program, call by call.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "recorded_program.h"

using namespace proxy_test;
using cachalot::Action;
using cachalot::Trace;

namespace {

const cachalot::EventDetail& detail_of(const Trace& trace, Action action) {
  for (size_t i = 0; i < trace.events.size(); i++)
    if (trace.events[i].action() == action) return trace.details[i];
  ADD_FAILURE() << "no such event";
  static const cachalot::EventDetail none;
  return none;
}

TEST(Recording, TellsOfItsProcess) {
  const RecordedRun run = record([](const Driver& driver) {
    driver.use();
    allocate(driver, 512);
  });
  const cachalot::TraceHeader& header = run.trace().header;
  EXPECT_EQ(header.format, 2);
  EXPECT_EQ(header.recorder.rfind("cachalot ", 0), 0u);
  EXPECT_EQ(header.driver, 13000);
  EXPECT_EQ(header.device_total, uint64_t{16} << 30);
  EXPECT_EQ(header.parent, 0);
  EXPECT_GT(header.pid, 0);
  EXPECT_GT(header.start_us, 0);
  EXPECT_NE(header.command.find("cachalot_proxy_test"), std::string::npos);
}

TEST(Recording, HasARequestAndAFree) {
  const RecordedRun run = record([](const Driver& driver) {
    driver.use();
    CHECK(driver.cuMemFree_v2(allocate(driver, 5000)) == 0);
  });
  const Trace& trace = run.trace();
  EXPECT_EQ(lines_of(trace), Lines({"a s 5000", "q s 5000", "c - 5000", "k s 0", "z - 0"}));
  EXPECT_EQ(trace.flaw, "");
  EXPECT_GE(detail_of(trace, Action::kAlloc).cost_ns, 0);
  EXPECT_GE(detail_of(trace, Action::kCallEnd).cost_ns, 0);
  EXPECT_GT(detail_of(trace, Action::kAlloc).thread, 0u);
  EXPECT_GE(trace.events.front().time_us, trace.header.start_us);
}

TEST(Recording, IsNotMadeWithoutItsVariableOrWhenDisabled) {
  const auto program = [](const Driver& driver) {
    driver.use();
    CHECK(driver.cuMemFree_v2(allocate(driver, 512)) == 0);
  };
  EXPECT_TRUE(record(program, {{"CACHALOT_RECORD", ""}}).traces.empty());
  EXPECT_TRUE(record(program, {{"CACHALOT_DISABLE", "1"}}).traces.empty());
}

TEST(Recording, IsNotMadeOfAProgramThatAsksForNothing) {
  EXPECT_TRUE(record([](const Driver& driver) { driver.use(); }).traces.empty());
}

TEST(Recording, ThatCannotBeMadeLeavesTheProgramAlone) {
  const RecordedRun run = run_recorded(
      [](const Driver& driver) {
        driver.use();
        CHECK(driver.cuMemFree_v2(allocate(driver, 512)) == 0);
      },
      {{"CACHALOT_RECORD", "/nowhere/run"}});
  EXPECT_EQ(run.status, 0);
  EXPECT_NE(run.output.find("is not recorded: /nowhere/run: cannot be made: No such file"),
            std::string::npos)
      << run.output;
  EXPECT_EQ(run.output.find('\n'), run.output.size() - 1);
}

TEST(Recording, WaitsForTheWorkThatAFreeWaitsForAndMeasuresIt) {
  const RecordedRun run = record([](const Driver& driver) {
    driver.use();
    const DeviceAddress address = allocate(driver, 512);
    driver.fake_start_work();
    std::thread device([&] {
      while (driver.fake_calls("cuEventSynchronize") == 0) std::this_thread::yield();
      CHECK(driver.fake_calls("cuMemFree_v2") == 0);
      driver.fake_finish_work();
    });
    CHECK(driver.cuMemFree_v2(address) == 0);
    device.join();
    CHECK(std::string(driver.fake_order()) == "cuEventSynchronize cuMemFree_v2");
  });
  const auto& detail = detail_of(run.trace(), Action::kCallEnd);
  EXPECT_GT(detail.wait_ns, 0);
  EXPECT_GE(detail.cost_ns, detail.wait_ns);
}

TEST(Recording, DoesNotWaitIfItIsToldSo) {
  const RecordedRun run = record(
      [](const Driver& driver) {
        driver.use();
        CHECK(driver.cuMemFree_v2(allocate(driver, 512)) == 0);
        CHECK(driver.fake_calls("cuCtxRecordEvent") == 0);
      },
      {{"CACHALOT_RECORD_WAITS", "0"}});
  EXPECT_EQ(detail_of(run.trace(), Action::kCallEnd).wait_ns, -1);
}

// A program may free one while its kernel waits for the host.
TEST(Recording, DoesNotWaitAtTheFreeOfABlockOfAStream) {
  record([](const Driver& driver) {
    driver.use();
    DeviceAddress address = 0;
    CHECK(driver.cuMemAllocAsync(&address, 512, nullptr) == 0);
    driver.fake_start_work();
    CHECK(driver.cuMemFree_v2(address) == 0);
    CHECK(driver.cuMemAllocFromPoolAsync(&address, 512, nullptr, nullptr) == 0);
    CHECK(driver.cuMemFreeAsync(address, nullptr) == 0);
    CHECK(driver.fake_calls("cuCtxRecordEvent") == 0);
  });
}

TEST(Recording, MeasuresTheWaitOfWhateverWaits) {
  const RecordedRun run = record([](const Driver& driver) {
    driver.use();
    DeviceAddress address = 0;
    size_t pitch = 0;
    void* host = nullptr;
    static char registered[64];
    Array array = nullptr;
    const ArrayDescriptor flat{100, 10, 0x20, 4};
    CHECK(driver.cuMemAllocPitch_v2(&address, &pitch, 100, 3, 4) == 0);
    CHECK(driver.cuMemFree_v2(address) == 0);
    CHECK(driver.cuMemAllocManaged(&address, 512, 1) == 0);
    CHECK(driver.cuMemFree_v2(address) == 0);
    CHECK(driver.cuMemAllocHost_v2(&host, 512) == 0);
    CHECK(driver.cuMemFreeHost(host) == 0);
    CHECK(driver.cuMemHostRegister_v2(registered, 64, 0) == 0);
    CHECK(driver.cuMemHostUnregister(registered) == 0);
    CHECK(driver.cuArrayCreate_v2(&array, &flat) == 0);
    CHECK(driver.cuArrayDestroy(array) == 0);
  });
  const Trace& trace = run.trace();
  int ends = 0;
  for (size_t i = 0; i < trace.events.size(); i++) {
    if (trace.events[i].action() != Action::kCallEnd) continue;
    EXPECT_GE(trace.details[i].wait_ns, 0) << "event " << i;
    ends++;
  }
  EXPECT_EQ(ends, 5);
}

TEST(Recording, MakesOneEventForAllWaitsOfAContext) {
  record([](const Driver& driver) {
    driver.use();
    for (int i = 0; i < 10; i++) CHECK(driver.cuMemFree_v2(allocate(driver, 512)) == 0);
    CHECK(driver.fake_calls("cuCtxRecordEvent") == 10);
    CHECK(driver.fake_calls("cuEventCreate") == 1);
  });
}

TEST(Recording, NamesStreamsAndTheStreamOfAFree) {
  const RecordedRun run = record([](const Driver& driver) {
    driver.use();
    DeviceAddress address = 0;
    const auto stream = reinterpret_cast<StreamHandle>(0x10);
    const auto legacy = reinterpret_cast<StreamHandle>(1);
    CHECK(driver.cuMemAllocAsync(&address, 512, stream) == 0);
    CHECK(driver.cuMemFreeAsync(address, legacy) == 0);
    CHECK(driver.cuMemAllocFromPoolAsync(&address, 1024, nullptr, stream) == 0);
    CHECK(driver.cuMemFreeAsync(address, stream) == 0);
  });
  EXPECT_EQ(lines_of(run.trace()),
            Lines({"a t 512 on 16", "q t 512 on 16", "c - 512 on 16", "k t 0", "a p 1024 on 16",
                   "q t 1024 on 16", "c - 1024 on 16", "k t 0", "z - 0"}));
  EXPECT_EQ(detail_of(run.trace(), Action::kFreeRequested).freed_on, 0u);
}

TEST(Recording, NamesThePerThreadDefaultStreamByItsThread) {
  const RecordedRun run = record([](const Driver& driver) {
    driver.use();
    DeviceAddress address = 0;
    CHECK(driver.cuMemAllocAsync_ptsz(&address, 512, nullptr) == 0);
    CHECK(driver.cuMemAllocAsync(&address, 512, reinterpret_cast<StreamHandle>(2)) == 0);
    CHECK(driver.cuMemAllocAsync(&address, 512, nullptr) == 0);
  });
  const Trace& trace = run.trace();
  ASSERT_EQ(trace.events.size(), 4u);
  EXPECT_EQ(trace.events[0].stream, (uint64_t{1} << 63) + static_cast<uint64_t>(trace.header.pid));
  EXPECT_EQ(trace.events[1].stream, trace.events[0].stream);
  EXPECT_EQ(trace.events[2].stream, 0u);
}

TEST(Recording, HasARequestThatTheDriverRefuses) {
  const RecordedRun run = record([](const Driver& driver) {
    driver.use();
    allocate(driver, size_t{15} << 30);
    DeviceAddress address = 0;
    CHECK(driver.cuMemAlloc_v2(&address, size_t{2} << 30) == 2);
    CHECK(driver.cuMemAlloc_v2(&address, 0) == 1);  // an error of the program, and no request
  });
  const Trace& trace = run.trace();
  EXPECT_EQ(lines_of(trace), Lines({"a s 16106127360", "o s 2147483648", "z - 0"}));
  EXPECT_EQ(trace.events[1].address, uint64_t{1} << 30);
}

TEST(Recording, HasABlockAgainThatTheDriverDidNotTakeBack) {
  const RecordedRun run = record([](const Driver& driver) {
    driver.use();
    const DeviceAddress address = allocate(driver, 512);
    driver.fake_fail("cuMemFree_v2", 900);
    CHECK(driver.cuMemFree_v2(address) == 900);
    CHECK(driver.cuMemFree_v2(address) == 0);
    CHECK(driver.cuMemFree_v2(address) == 1);  // freed twice: the driver's error, and no event
    CHECK(driver.cuMemFree_v2(0) == 0);
  });
  EXPECT_EQ(lines_of(run.trace()), Lines({"a s 512", "q s 512", "c - 512", "k s 0", "a s 512",
                                          "q s 512", "c - 512", "k s 0", "z - 0"}));
  EXPECT_EQ(run.trace().flaw, "");
}

TEST(Recording, HasMemoryOutsideOfAnyCache) {
  const RecordedRun run = record([](const Driver& driver) {
    driver.use();
    DeviceAddress address = 0;
    void* host = nullptr;
    static char registered[64];
    Array array = nullptr;
    MipmappedArray mipmap = nullptr;
    size_t pitch = 0;
    CHECK(driver.cuMemAllocManaged(&address, 100, 1) == 0);
    CHECK(driver.cuMemFree_v2(address) == 0);
    CHECK(driver.cuMemAllocHost(&host, 200) == 0);
    CHECK(driver.cuMemFreeHost(host) == 0);
    CHECK(driver.cuMemHostAlloc(&host, 300, 0) == 0);
    CHECK(driver.cuMemFreeHost(host) == 0);
    CHECK(driver.cuMemHostRegister(registered, 64, 0) == 0);
    CHECK(driver.cuMemHostUnregister(registered) == 0);
    const ArrayDescriptor flat{100, 10, 0x20, 4};
    CHECK(driver.cuArrayCreate_v2(&array, &flat) == 0);
    CHECK(driver.cuArrayDestroy(array) == 0);
    const Array3dDescriptor cube{4, 4, 4, 0x01, 1, 0};
    CHECK(driver.cuArray3DCreate_v2(&array, &cube) == 0);
    CHECK(driver.cuArrayDestroy(array) == 0);
    CHECK(driver.cuMipmappedArrayCreate(&mipmap, &cube, 3) == 0);
    CHECK(driver.cuMipmappedArrayDestroy(mipmap) == 0);
    CHECK(driver.cuMemAllocPitch_v2(&address, &pitch, 100, 3, 4) == 0);
    CHECK(driver.cuIpcOpenMemHandle_v2(&address, IpcMemoryHandle{}, 0) == 0);
    CHECK(driver.cuIpcCloseMemHandle(address) == 0);
  });
  EXPECT_EQ(lines_of(run.trace(), "k"),
            Lines({"A m 100", "R s 100", "A l 200", "R l 200", "A l 300", "R l 300", "A r 64",
                   "R r 64", "A y 16000", "R y 16000", "A y 64", "R y 64", "A y 73", "R y 73",
                   "a h 1536", "A i 2097152", "R i 2097152", "z - 0"}));
}

TEST(Recording, HasAHandleFromWhereItCanBeUsedUntilItIsUnmapped) {
  const RecordedRun run = record([](const Driver& driver) {
    driver.use();
    DeviceAddress range = 0;
    AllocationHandle first = 0;
    AllocationHandle second = 0;
    CHECK(driver.cuMemAddressReserve(&range, 8192, 0, 0, 0) == 0);
    CHECK(driver.cuMemCreate(&first, 4096, nullptr, 0) == 0);
    CHECK(driver.cuMemCreate(&second, 4096, nullptr, 0) == 0);
    CHECK(driver.cuMemMap(range, 4096, 0, first, 0) == 0);
    CHECK(driver.cuMemMap(range + 4096, 4096, 0, second, 0) == 0);
    CHECK(driver.fake_calls("cuMemSetAccess") == 0);
    CHECK(driver.cuMemSetAccess(range, 8192, nullptr, 1) == 0);
    CHECK(driver.cuMemSetAccess(range, 8192, nullptr, 1) == 0);  // for another device: nothing new
    CHECK(driver.cuMemRelease(first) == 0);
    CHECK(driver.cuMemUnmap(range, 8192) == 0);
    CHECK(driver.cuMemMap(range, 4096, 0, second, 0) == 0);
    CHECK(driver.cuMemSetAccess(range, 4096, nullptr, 1) == 0);
    CHECK(driver.cuMemMap(range + 4096, 4096, 0, second, 0) == 0);  // at a second place
    CHECK(driver.cuMemMap(range + 8192, 4096, 0, 0x77, 0) == 0);    // of another process
    CHECK(driver.cuMemSetAccess(range, 16384, nullptr, 1) == 0);
    CHECK(driver.cuMemUnmap(range, 16384) == 0);
    CHECK(driver.cuMemRelease(second) == 0);
  });
  EXPECT_EQ(lines_of(run.trace()),
            Lines({"a v 4096", "a v 4096", "k v 0",                          // release of the first
                   "q v 4096", "c - 4096", "q v 4096", "c - 4096", "k v 0",  //
                   "a v 4096", "A v 4096", "A i 4096",                       //
                   "q v 4096", "c - 4096", "R v 4096", "R i 4096", "k v 0", "k v 0", "z - 0"}));
  EXPECT_EQ(run.trace().flaw, "");
}

TEST(Recording, HasStreamsAndWaits) {
  const RecordedRun run = record([](const Driver& driver) {
    driver.use();
    const StreamHandle stream = make_stream(driver);
    CHECK(driver.cuStreamSynchronize(stream) == 0);
    CHECK(driver.cuStreamDestroy_v2(stream) == 0);
    CHECK(driver.cuCtxSynchronize() == 0);
  });
  std::string actions;
  for (const auto& event : run.trace().events)
    actions += cachalot::action_name(event.action()) + std::string(" ");
  EXPECT_EQ(actions, "stream_create stream_wait stream_destroy context_wait recording_end ");
}

// A server that waits all the time would fill the disk.
TEST(Recording, HasAWaitOnceUntilSomethingElseHappens) {
  const RecordedRun run = record([](const Driver& driver) {
    driver.use();
    const auto stream = reinterpret_cast<StreamHandle>(0x10);
    for (int i = 0; i < 100; i++) CHECK(driver.cuStreamSynchronize(stream) == 0);
    for (int i = 0; i < 100; i++) CHECK(driver.cuStreamSynchronize(nullptr) == 0);
    for (int i = 0; i < 100; i++) CHECK(driver.cuCtxSynchronize() == 0);
    allocate(driver, 512);
    for (int i = 0; i < 100; i++) CHECK(driver.cuCtxSynchronize() == 0);
  });
  EXPECT_EQ(lines_of(run.trace()),
            Lines({"w - 0 on 16", "w - 0", "W - 0", "a s 512", "W - 0", "z - 0"}));
}

TEST(Recording, HasExports) {
  const RecordedRun run = record([](const Driver& driver) {
    driver.use();
    const DeviceAddress address = allocate(driver, 8192);
    IpcMemoryHandle handle;
    CHECK(driver.cuIpcGetMemHandle(&handle, address + 4096) == 0);
  });
  const Trace& trace = run.trace();
  EXPECT_EQ(lines_of(trace), Lines({"a s 8192", "e s 8192", "z - 0"}));
  EXPECT_EQ(trace.events[1].address, trace.events[0].address);
}

TEST(Recording, HasTheEndOfAPrimaryContextHoweverItComes) {
  const auto program = [](void (*end)(const Driver&)) {
    return record([end](const Driver& driver) {
      driver.use();
      allocate(driver, 512);
      end(driver);
      driver.use();
      CHECK(driver.cuMemFree_v2(allocate(driver, 512)) == 0);
    });
  };
  const std::vector<std::pair<void (*)(const Driver&), const char*>> ends = {
      {[](const Driver& driver) { CHECK(driver.cuDevicePrimaryCtxReset_v2(0) == 0); }, "x - 1"},
      {[](const Driver& driver) { CHECK(driver.cuDevicePrimaryCtxReset(0) == 0); }, "x - 1"},
      {[](const Driver& driver) { CHECK(driver.cuDevicePrimaryCtxRelease_v2(0) == 0); }, "x - 0"},
      {[](const Driver& driver) { CHECK(driver.cuDevicePrimaryCtxRelease(0) == 0); }, "x - 0"},
      {[](const Driver& driver) { driver.fake_reset(0); }, "x - 0"},
  };
  for (const auto& [end, line] : ends) {
    const RecordedRun run = program(end);
    EXPECT_EQ(lines_of(run.trace()),
              Lines({"a s 512", line, "a s 512", "q s 512", "c - 512", "k s 0", "z - 0"}));
    EXPECT_EQ(run.trace().flaw, "");
  }
}

TEST(Recording, KeepsThePrimaryContextWhileSomebodyHasIt) {
  const RecordedRun run = record([](const Driver& driver) {
    driver.use();
    driver.use();
    const DeviceAddress address = allocate(driver, 512);
    CHECK(driver.cuDevicePrimaryCtxRelease_v2(0) == 0);
    CHECK(driver.cuMemFree_v2(address) == 0);
  });
  EXPECT_EQ(lines_of(run.trace(), "k"), Lines({"a s 512", "q s 512", "c - 512", "z - 0"}));
}

TEST(Recording, FreesTheBlocksOfAContextOfThePrograms) {
  const RecordedRun run = record([](const Driver& driver) {
    driver.use();
    const DeviceAddress outside = allocate(driver, 512);
    Context own = nullptr;
    CHECK(driver.cuCtxCreate_v2(&own, 0, 0) == 0);
    allocate(driver, 1024);
    CHECK(driver.cuCtxDestroy_v2(own) == 0);
    CHECK(driver.cuMemFree_v2(outside) == 0);
  });
  const Trace& trace = run.trace();
  EXPECT_EQ(lines_of(trace, "k"), Lines({"a s 512", "a s 1024", "q - 1024", "c - 1024", "x - 1",
                                         "q s 512", "c - 512", "z - 0"}));
  EXPECT_EQ(trace.details[0].driver_context, 0u);
  EXPECT_NE(trace.details[1].driver_context, 0u);
}

TEST(Recording, CountsMemoryOfAContextOfUnknownOriginAsNoBlock) {
  const RecordedRun run = record([](const Driver& driver) {
    CHECK(driver.cuCtxSetCurrent(driver.fake_make_context()) == 0);
    CHECK(driver.cuMemFree_v2(allocate(driver, 512)) == 0);
  });
  EXPECT_EQ(lines_of(run.trace(), "k"), Lines({"A s 512", "R s 512", "z - 0"}));
}

// A wait for a green context is for its own work alone.
TEST(Recording, CountsMemoryOfAGreenContextToThePrimaryOneAndNoWaitForIt) {
  const RecordedRun run = record([](const Driver& driver) {
    driver.use();
    Context green = nullptr;
    CHECK(driver.cuCtxFromGreenCtx(&green, driver.fake_make_green_context()) == 0);
    CHECK(driver.cuCtxSetCurrent(green) == 0);
    const DeviceAddress block = allocate(driver, 512);
    CHECK(driver.cuCtxSynchronize() == 0);
    driver.use();
    CHECK(driver.cuCtxSynchronize() == 0);
    CHECK(driver.cuMemFree_v2(block) == 0);
  });
  const Trace& trace = run.trace();
  EXPECT_EQ(lines_of(trace, "k"), Lines({"a s 512", "W - 0", "q s 512", "c - 512", "z - 0"}));
  EXPECT_EQ(trace.details[0].driver_context, 0u);
}

TEST(Recording, EndsTheMappingsOfAContextWithIt) {
  const RecordedRun run = record([](const Driver& driver) {
    driver.use();
    const auto map = [&](DeviceAddress address) {
      AllocationHandle handle = 0;
      CHECK(driver.cuMemCreate(&handle, 4096, nullptr, 0) == 0);
      CHECK(driver.cuMemMap(address, 4096, 0, handle, 0) == 0);
      CHECK(driver.cuMemSetAccess(address, 4096, nullptr, 1) == 0);
    };
    Context own = nullptr;
    CHECK(driver.cuCtxCreate_v2(&own, 0, 0) == 0);
    map(0x10000000);
    CHECK(driver.cuCtxDestroy_v2(own) == 0);
    driver.use();
    CHECK(driver.cuMemUnmap(0x10000000, 4096) == 0);
    map(0x10000000);
    CHECK(driver.cuCtxCreate_v2(&own, 0, 0) == 0);
    map(0x20000000);
    driver.fake_reset(0);  // of the primary one, while the other has memory on the device
    driver.use();
    CHECK(driver.cuMemFree_v2(allocate(driver, 512)) == 0);
    CHECK(driver.cuMemUnmap(0x20000000, 4096) == 0);
  });
  EXPECT_EQ(run.trace().flaw, "");
  EXPECT_EQ(lines_of(run.trace(), "k"),
            Lines({"a v 4096", "q - 4096", "c - 4096", "x - 1", "a v 4096", "a v 4096", "q - 4096",
                   "c - 4096", "x - 0", "a s 512", "q s 512", "c - 512", "q v 4096", "c - 4096",
                   "z - 0"}));
}

TEST(Recording, CountsMemoryOfTheHostThatIsMappedAsNoBlock) {
  const RecordedRun run = record([](const Driver& driver) {
    driver.use();
    AllocationProperties properties{};
    properties.location.type = 3;  // a node of the host
    AllocationHandle handle = 0;
    CHECK(driver.cuMemCreate(&handle, 4096, &properties, 0) == 0);
    CHECK(driver.cuMemMap(0x10000000, 4096, 0, handle, 0) == 0);
    CHECK(driver.cuMemSetAccess(0x10000000, 4096, nullptr, 1) == 0);
    CHECK(driver.cuMemUnmap(0x10000000, 4096) == 0);
  });
  EXPECT_EQ(lines_of(run.trace(), "k"), Lines({"A v 4096", "R v 4096", "z - 0"}));
}

// Whatever gave it back: a recording stays one that can have happened.
TEST(Recording, EndsABlockWhoseAddressIsHandedOutAnew) {
  const RecordedRun run = record([](const Driver& driver) {
    driver.use();
    const DeviceAddress address = allocate(driver, 512);
    driver.fake_drop(address);
    CHECK(allocate(driver, 512) == address);
  });
  EXPECT_EQ(lines_of(run.trace()), Lines({"a s 512", "q - 512", "c - 512", "a s 512", "z - 0"}));
  EXPECT_EQ(run.trace().flaw, "");
}

TEST(Recording, PassesOnWhatMakesNoSense) {
  const RecordedRun run = record([](const Driver& driver) {
    DeviceAddress address = 0;
    CHECK(driver.cuMemAlloc_v2(&address, 512) == 201);  // no context
    CHECK(driver.cuMemFree_v2(0x1234) == 201);
    CHECK(driver.cuStreamSynchronize(nullptr) == 201);
    driver.use();
    CHECK(driver.cuMemFree_v2(0x1234) == 1);
    CHECK(driver.cuMemFreeAsync(0x1234, nullptr) == 1);
    CHECK(driver.cuMemUnmap(0x1234, 4096) == 1);
    CHECK(driver.cuMemRelease(0x1234) == 1);
    CHECK(driver.cuArrayCreate_v2(nullptr, nullptr) == 1);
    CHECK(driver.cuGetProcAddress_v2("cuNothing", nullptr, 13000, 1, nullptr) == 500);
  });
  EXPECT_EQ(lines_of(run.trace(), "k"), Lines({"z - 0"}));
}

TEST(Recording, NamesTheDevice) {
  const RecordedRun run = record([](const Driver& driver) {
    driver.use(0);
    const DeviceAddress address = allocate(driver, 512);
    driver.use(1);
    allocate(driver, 1024);
    CHECK(driver.cuMemFree_v2(address) == 0);  // of the first, while the second is current
  });
  const Trace& trace = run.trace();
  EXPECT_EQ(trace.events[0].device, 0);
  EXPECT_EQ(trace.events[1].device, 1);
  EXPECT_EQ(trace.events[2].device, 0);
  EXPECT_EQ(trace.flaw, "");
}

// ---- Captures

TEST(Recording, NeitherWaitsNorRecordsEventsDuringACapture) {
  const RecordedRun run = record([](const Driver& driver) {
    driver.use();
    const StreamHandle stream = make_stream(driver);
    Graph graph = nullptr;
    CHECK(driver.cuStreamBeginCapture_v2(stream, kRelaxedCapture) == 0);
    CHECK(driver.cuMemFree_v2(allocate(driver, 512)) == 0);
    CHECK(driver.fake_calls("cuCtxRecordEvent") == 0);
    DeviceAddress address = 0;
    CHECK(driver.cuMemAllocAsync(&address, 1024, stream) == 0);
    CHECK(driver.cuMemFreeAsync(address, stream) == 0);
    CHECK(driver.cuStreamEndCapture(stream, &graph) == 0);
    CHECK(driver.cuMemFree_v2(allocate(driver, 512)) == 0);
    CHECK(driver.fake_calls("cuCtxRecordEvent") == 1);
  });
  std::string letters;
  for (const std::string& line : lines_of(run.trace())) letters += line.substr(0, 3) + "|";
  EXPECT_EQ(letters, "C -|g -|a s|q s|c -|k s|A n|R t|k t|h -|a s|q s|c -|k s|z -|");
}

// A capture begins between the look at captures and the event of a free: it has to wait for the event.
TEST(Recording, DoesNotBreakACaptureThatBeginsWhileAnEventIsRecorded) {
  record([](const Driver& driver) {
    static const Driver* the_driver;
    static StreamHandle stream;
    static std::thread other;
    static std::atomic<bool> is_beginning{false};
    the_driver = &driver;
    driver.use();
    stream = make_stream(driver);
    const DeviceAddress address = allocate(driver, 512);
    driver.fake_before("cuCtxRecordEvent", [] {
      other = std::thread([] {
        the_driver->use();
        is_beginning = true;
        CHECK(the_driver->cuStreamBeginCapture_v2(stream, kThreadLocalCapture) == 0);
      });
      while (!is_beginning) std::this_thread::yield();
      // Long enough for the other thread to begin, if nothing held it up.
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    });
    CHECK(driver.cuMemFree_v2(address) == 0);
    other.join();
    Graph graph = nullptr;
    CHECK(driver.cuStreamEndCapture(stream, &graph) == 0);
  });
}

TEST(Recording, GoesOnToWaitAfterACaptureThatIsBrokenOrWhoseStreamIsDestroyed) {
  record([](const Driver& driver) {
    driver.use();
    const StreamHandle stream = make_stream(driver);
    Graph graph = nullptr;
    CHECK(driver.cuStreamBeginCapture_v2(stream, kRelaxedCapture) == 0);
    CHECK(driver.cuCtxSynchronize() == 900);
    CHECK(driver.cuStreamEndCapture(stream, &graph) == 901);
    CHECK(driver.cuStreamBeginCapture_v2(stream, kRelaxedCapture) == 0);
    CHECK(driver.cuStreamDestroy_v2(stream) == 0);
    CHECK(driver.cuMemFree_v2(allocate(driver, 512)) == 0);
    CHECK(driver.fake_calls("cuCtxRecordEvent") == 1);
  });
}

// The fake refuses to end a capture of another thread, as the driver does.
TEST(Recording, LeavesACaptureAloneThatAnotherThreadCannotEnd) {
  record([](const Driver& driver) {
    driver.use();
    const StreamHandle stream = make_stream(driver);
    Graph graph = nullptr;
    CHECK(driver.cuStreamBeginCapture_v2(stream, kRelaxedCapture) == 0);
    driver.fake_fail("cuStreamEndCapture", 908);
    CHECK(driver.cuStreamEndCapture(stream, &graph) == 908);
    CHECK(driver.cuMemFree_v2(allocate(driver, 512)) == 0);
    CHECK(driver.fake_calls("cuCtxRecordEvent") == 0);
    CHECK(driver.cuStreamEndCapture(stream, &graph) == 0);
  });
}

TEST(Recording, KnowsACaptureOfThePerThreadDefaultStream) {
  const RecordedRun run = record([](const Driver& driver) {
    driver.use();
    Graph graph = nullptr;
    DeviceAddress address = 0;
    CHECK(driver.cuStreamBeginCapture_v2_ptsz(nullptr, kRelaxedCapture) == 0);
    CHECK(driver.cuMemAllocAsync_ptsz(&address, 512, nullptr) == 0);
    CHECK(driver.cuMemAllocAsync(&address, 512, nullptr) == 0);  // on the legacy stream: no node
    CHECK(driver.cuStreamEndCapture_ptsz(nullptr, &graph) == 0);
  });
  std::string letters;
  for (const std::string& line : lines_of(run.trace())) letters += line.substr(0, 3) + "|";
  EXPECT_EQ(letters, "g -|A n|a t|h -|z -|");
}

TEST(Recording, MeasuresWaitsAgainAfterAContextThatEndedWithACapture) {
  record([](const Driver& driver) {
    driver.use();
    const StreamHandle stream = make_stream(driver);
    allocate(driver, 512);
    CHECK(driver.cuStreamBeginCapture_v2(stream, kRelaxedCapture) == 0);
    driver.fake_reset(0);
    driver.use();
    CHECK(driver.cuMemFree_v2(allocate(driver, 512)) == 0);
    CHECK(driver.fake_calls("cuCtxRecordEvent") == 1);
  });
}

// ---- Processes and threads

TEST(Recording, OfAProgramThatIsKilledHasAllThatItDid) {
  const RecordedRun run = run_recorded([](const Driver& driver) {
    driver.use();
    for (int i = 0; i < 1000; i++) CHECK(driver.cuMemFree_v2(allocate(driver, 512)) == 0);
    kill(getpid(), SIGKILL);
  });
  EXPECT_TRUE(WIFSIGNALED(run.status));
  EXPECT_EQ(run.trace().events.size(), 4000u);
  EXPECT_EQ(run.trace().flaw, "");
}

TEST(Recording, OfAForkedChildIsAFileOfItsOwn) {
  const RecordedRun run = record([](const Driver& driver) {
    driver.use();
    allocate(driver, 512);
    if (const pid_t child = fork(); child == 0) {
      driver.use();
      allocate(driver, 1024);
      std::exit(0);
    } else {
      int status = 0;
      CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    allocate(driver, 2048);
  });
  ASSERT_EQ(run.traces.size(), 2u);
  const Trace& parent = run.traces.at("run");
  const Trace& child = run.traces.at("run.2");
  EXPECT_EQ(lines_of(parent), Lines({"a s 512", "a s 2048", "z - 0"}));
  EXPECT_EQ(lines_of(child), Lines({"a s 1024", "z - 0"}));
  EXPECT_EQ(child.header.parent, parent.header.pid);
  EXPECT_NE(child.header.pid, parent.header.pid);
  EXPECT_EQ(child.details[0].thread, static_cast<uint64_t>(child.header.pid));
}

TEST(Recording, OfAForkedChildThatAsksForNothingIsNotMade) {
  const RecordedRun run = record([](const Driver& driver) {
    driver.use();
    allocate(driver, 512);
    if (const pid_t child = fork(); child == 0)
      std::exit(0);
    else
      waitpid(child, nullptr, 0);
  });
  EXPECT_EQ(lines_of(run.trace()), Lines({"a s 512", "z - 0"}));
}

TEST(Recording, PutsItsProcessIntoTheNameAndItsFileIntoTheList) {
  const std::string list = testing::TempDir() + "cachalot-list-" + std::to_string(getpid());
  FILE* const file = fopen(list.c_str(), "w");
  ASSERT_NE(file, nullptr);
  fclose(file);
  const std::string name = testing::TempDir() + "cachalot-%p.trace";
  record(
      [](const Driver& driver) {
        driver.use();
        allocate(driver, 512);
      },
      {{"CACHALOT_RECORD", name}, {"CACHALOT_RECORD_LIST", list}});
  FILE* const lines = fopen(list.c_str(), "r");
  char line[1000] = "";
  EXPECT_NE(fgets(line, sizeof line, lines), nullptr);
  fclose(lines);
  unlink(list.c_str());
  std::string path = line;
  ASSERT_FALSE(path.empty());
  path.pop_back();
  EXPECT_EQ(path.find("%p"), std::string::npos);
  EXPECT_EQ(access(path.c_str(), R_OK), 0) << path;
  unlink(path.c_str());
}

TEST(Recording, EndsWellWhileThreadsGoOn) {
  const RecordedRun run = record([](const Driver& driver) {
    static const Driver* the_driver;
    the_driver = new Driver(driver);
    for (int i = 0; i < 4; i++)
      std::thread([] {
        the_driver->use();
        for (;;) the_driver->cuMemFree_v2(allocate(*the_driver, 512));
      }).detach();
    while (driver.fake_calls("cuMemFree_v2") < 20000) std::this_thread::yield();
  });
  EXPECT_EQ(run.trace().flaw, "");
  EXPECT_GT(run.trace().events.size(), 20000u);
}

TEST(Recording, OfManyThreadsIsWhole) {
  constexpr int kThreads = 8;
  constexpr int kPairs = 2000;
  const RecordedRun run = record([](const Driver& driver) {
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; i++)
      threads.emplace_back([&driver, i] {
        driver.use();
        for (int k = 0; k < kPairs; k++)
          CHECK(driver.cuMemFree_v2(allocate(driver, 512 * static_cast<size_t>(1 + i % 3))) == 0);
      });
    for (auto& thread : threads) thread.join();
  });
  // An address goes from thread to thread: that no block is handed out while it is live is the order.
  EXPECT_EQ(run.trace().flaw, "");
  EXPECT_EQ(run.trace().events.size(), 4u * kThreads * kPairs + 1);
}

// ---- Stacks

#ifdef CACHALOT_HAS_STACKS

[[gnu::noinline]] void allocate_here(const Driver& driver) { allocate(driver, 512); }
[[gnu::noinline]] void allocate_there(const Driver& driver) {
  allocate(driver, 512);
  allocate(driver, 1024);
}

const cachalot::RecordedModule* module_of(const Trace& trace, const cachalot::RecordedStack& stack,
                                          cachalot::Address address) {
  for (size_t i = stack.modules; i-- > 0;)
    if (trace.modules[i].begin <= address && address < trace.modules[i].end)
      return &trace.modules[i];
  return nullptr;
}

TEST(RecordedStacks, TellWhereInTheProgramARequestIsMade) {
  const RecordedRun run = record(
      [](const Driver& driver) {
        driver.use();
        const volatile int times = 3;  // one place, not three
        for (int i = 0; i < times; i++) allocate_here(driver);
        allocate_there(driver);
      },
      {{"CACHALOT_RECORD_STACKS", "32"}});
  const Trace& trace = run.trace();
  EXPECT_EQ(trace.stacks.size(), 3u);  // each is written once
  ASSERT_EQ(trace.events.size(), 6u);
  EXPECT_EQ(trace.events[0].context, trace.events[2].context);
  EXPECT_NE(trace.events[0].context, trace.events[3].context);
  EXPECT_NE(trace.events[3].context, trace.events[4].context);
  for (const auto& stack : trace.stacks) {
    ASSERT_GE(stack.frames.size(), 4u);
    const auto* const innermost = module_of(trace, stack, stack.frames.front());
    ASSERT_NE(innermost, nullptr);
    EXPECT_NE(innermost->path.find("cachalot_proxy_test"), std::string::npos) << innermost->path;
    // Down to where the program begins, in the C library.
    bool has_begin = false;
    for (const auto frame : stack.frames) {
      const auto* const module = module_of(trace, stack, frame);
      has_begin |= module != nullptr && module->path.find("libc.so") != std::string::npos;
    }
    EXPECT_TRUE(has_begin);
  }
}

TEST(RecordedStacks, HaveAsManyFramesAsAreAskedFor) {
  const RecordedRun run = record(
      [](const Driver& driver) {
        driver.use();
        allocate_here(driver);
      },
      {{"CACHALOT_RECORD_STACKS", "2"}});
  ASSERT_EQ(run.trace().stacks.size(), 1u);
  EXPECT_EQ(run.trace().stacks[0].frames.size(), 2u);
}

TEST(RecordedStacks, KnowCodeThatIsLoadedLater) {
  const RecordedRun run = record(
      [](const Driver& driver) {
        driver.use();
        allocate_here(driver);
        CHECK(dlopen("libm.so.6", RTLD_NOW) != nullptr);
        CHECK(dlopen("libresolv.so.2", RTLD_NOW) != nullptr);
        allocate_there(driver);
      },
      {{"CACHALOT_RECORD_STACKS", "32"}});
  const Trace& trace = run.trace();
  const auto has = [&](size_t count) {
    for (size_t i = 0; i < count; i++)
      if (trace.modules[i].path.find("libresolv") != std::string::npos) return true;
    return false;
  };
  ASSERT_EQ(trace.stacks.size(), 3u);
  EXPECT_FALSE(has(trace.stacks[0].modules));
  EXPECT_TRUE(has(trace.stacks[1].modules));
}

TEST(RecordedStacks, OfThreadsAreTakenWhileLibrariesComeAndGo) {
  const RecordedRun run = record(
      [](const Driver& driver) {
        std::atomic<bool> is_done{false};
        std::thread loading([&] {
          while (!is_done) dlclose(dlopen("libresolv.so.2", RTLD_NOW));
        });
        std::vector<std::thread> threads;
        for (int i = 0; i < 4; i++)
          threads.emplace_back([&] {
            driver.use();
            for (int k = 0; k < 500; k++) {
              allocate_here(driver);
              allocate_there(driver);
            }
          });
        for (auto& thread : threads) thread.join();
        is_done = true;
        loading.join();
      },
      {{"CACHALOT_RECORD_STACKS", "32"}});
  EXPECT_EQ(run.trace().stacks.size(), 3u);
  EXPECT_EQ(run.trace().events.size(), 4u * 500 * 3 + 1);
}

#endif

// ---- Drivers

TEST(Recording, PassesOnWhatItDoesNotKnow) {
  record([](const Driver&) {
    void* const library = dlopen("libcuda.so.1", RTLD_NOW);
    auto* const unknown = reinterpret_cast<Result (*)()>(dlsym(library, "cuFromANewerDriver"));
    CHECK(unknown != nullptr);
    CHECK(unknown() == 42);
  });
}

struct Form {
  const char* function;
  int version;
  uint64_t flags;
  const char* exported;
};
constexpr Form kForms[] = {
#define SYMBOL(function, version, flags, exported) {#function, version, flags, #exported},
#include "driver_symbols.inc"
#undef SYMBOL
};

// Forms that have addresses and sizes of 32 bits, which no program of today can use.
bool is_of_32_bits(const Form& form) {
  for (const char* const name : {"cuMemAlloc", "cuMemFree", "cuMemAllocPitch", "cuArrayCreate",
                                 "cuArray3DCreate", "cuMemGetInfo", "cuMemGetAddressRange"})
    if (std::string(form.exported) == name) return true;
  return false;
}

TEST(Recording, HooksEachFormOfEachFunction) {
  record([](const Driver& driver) {
    const std::set<std::string> hooked = {
#define NAME(name, function, ...) #function,
        CACHALOT_HOOKED(NAME)
#undef NAME
    };
    int asked = 0;
    for (const Form& form : kForms) {
      if (hooked.count(form.function) == 0 || is_of_32_bits(form)) continue;
      void* first = nullptr;
      void* second = nullptr;
      int status = 0;
      CHECK(driver.cuGetProcAddress(form.function, &first, form.version, form.flags) == 0);
      CHECK(driver.cuGetProcAddress_v2(form.function, &second, form.version, form.flags, &status) ==
            0);
      Dl_info info{};
      CHECK(dladdr(first, &info) != 0 && info.dli_sname != nullptr);
      // The driver itself is loaded by another name.
      if (!std::string(info.dli_fname).ends_with("/libcuda.so.1") ||
          info.dli_sname != std::string(form.exported)) {
        std::fprintf(stderr, "%s of %d, flags %d: %s of %s\n", form.function, form.version,
                     static_cast<int>(form.flags), info.dli_sname, info.dli_fname);
        CHECK(false);
      }
      CHECK(first == second);
      asked++;
    }
    CHECK(asked > 90);
  });
}

}  // namespace
