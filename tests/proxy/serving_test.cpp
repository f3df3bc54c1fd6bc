// SPDX-License-Identifier: MIT OR Apache-2.0
// Programs whose requests are served (`cachalot run`), call by call.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <thread>

#include "recorded_program.h"

using namespace proxy_test;

namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr Result kOutOfMemory = 2;
constexpr Result kNotSupported = 801;
constexpr const char* kRules[] = {"wait", "event"};
constexpr std::pair<const char*, const char*> kConfigsAndRules[] = {
    {"", "wait"},
    {"", "event"},
    {"expandable_segments:True", "wait"},
    {"expandable_segments:True", "event"}};

TEST(Serving, AsksTheDriverOnceForWhatTheProgramAsksForOften) {
  serve_in_silence([](const Driver& driver) {
    driver.use();
    for (int i = 0; i < 100; i++) free_block(driver, allocate(driver, 5000));
    CHECK(driver.fake_calls("cuMemAlloc_v2") == 1);
    CHECK(driver.fake_calls("cuMemFree_v2") == 0);
  });
}

TEST(Serving, IsOffWithoutItsVariableAndWhenDisabled) {
  const auto program = [](const Driver& driver) {
    driver.use();
    for (int i = 0; i < 10; i++) free_block(driver, allocate(driver, 5000));
    CHECK(driver.fake_calls("cuMemAlloc_v2") == 10);
  };
  serve_in_silence(program, {{"CACHALOT_RUN_FREE", ""}});
  serve_in_silence(program, {{"CACHALOT_DISABLE", "1"}});
}

TEST(Serving, SaysWhichSettingCannotBeAndServesNothing) {
  const auto program = [](const Driver& driver) {
    driver.use();
    free_block(driver, allocate(driver, 5000));
    CHECK(driver.fake_calls("cuMemFree_v2") == 1);
  };
  EXPECT_EQ(serve(program, {{"CACHALOT_RUN_LIMIT", "much"}}),
            "cachalot: the program is not served: CACHALOT_RUN_LIMIT=much: expected bytes, like "
            "512MiB\n");
  EXPECT_EQ(serve(program, {{"CACHALOT_RUN_FREE", "never"}}),
            "cachalot: the program is not served: CACHALOT_RUN_FREE=never: expected wait or "
            "event\n");
}

// ---- When a block may be used again

TEST(Serving, WaitsAtAFreeForAllWorkAsTheDriverDoes) {
  serve_in_silence([](const Driver& driver) {
    driver.use();
    const DeviceAddress address = allocate(driver, 5000);
    driver.fake_start_work();
    const LaterFinish finish(driver);
    free_block(driver, address);
    CHECK(driver.fake_finished() == 1);
  });
}

// A wait or an event of the context would break the capture.
TEST(Serving, HoldsBlocksBackWhileAStreamIsCaptured) {
  for (const char* rule : kRules) {
    serve_in_silence(
        [](const Driver& driver) {
          driver.use();
          const StreamHandle stream = make_stream(driver);
          const DeviceAddress first = allocate(driver, 30 * kMiB);
          CHECK(driver.cuStreamBeginCapture_v2(stream, kRelaxedCapture) == 0);
          driver.fake_start_work();
          free_block(driver, first);
          const DeviceAddress during = allocate(driver, 30 * kMiB);
          CHECK(during != first);
          free_block(driver, during);
          Graph graph = nullptr;
          CHECK(driver.cuStreamEndCapture(stream, &graph) == 0 && graph != nullptr);
          // The work is not done yet.
          CHECK(allocate(driver, 30 * kMiB) != first);
          driver.fake_finish_work();
          const DeviceAddress again = allocate(driver, 30 * kMiB);
          CHECK(again == first || again == during);
        },
        {{"CACHALOT_RUN_FREE", rule}});
  }
}

// Each fill waits for the device.
TEST(Serving, FillsNoBlockWhileAStreamIsCaptured) {
  for (const char* rule : kRules) {
    serve_in_silence(
        [](const Driver& driver) {
          driver.use();
          const StreamHandle stream = make_stream(driver);
          const DeviceAddress before = allocate(driver, 5000);
          const uint64_t waits = driver.fake_calls("cuCtxSynchronize");
          CHECK(waits > 0);
          CHECK(driver.cuStreamBeginCapture_v2(stream, kRelaxedCapture) == 0);
          free_block(driver, allocate(driver, 5000));
          free_block(driver, before);
          CHECK(driver.fake_calls("cuCtxSynchronize") == waits);
          Graph graph = nullptr;
          CHECK(driver.cuStreamEndCapture(stream, &graph) == 0 && graph != nullptr);
          free_block(driver, allocate(driver, 5000));
          CHECK(driver.fake_calls("cuCtxSynchronize") > waits);
        },
        {{"CACHALOT_RUN_FREE", rule}, {"CACHALOT_DEBUG", "redzones,poison"}});
  }
}

TEST(Serving, DoesNotBreakACaptureThatBeginsWhileAFreeWaits) {
  for (const char* rule : kRules) {
    serve_in_silence(
        [](const Driver& driver) {
          driver.use();
          static const Driver* used;
          static StreamHandle stream;
          used = &driver;
          stream = make_stream(driver);
          static std::thread other;
          const DeviceAddress address = allocate(driver, 5000);
          driver.fake_before("cuCtxRecordEvent", [] {
            other = std::thread([] {
              used->use();
              CHECK(used->cuStreamBeginCapture_v2(stream, kThreadLocalCapture) == 0);
            });
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
          });
          free_block(driver, address);
          other.join();
          Graph graph = nullptr;
          CHECK(driver.cuStreamEndCapture(stream, &graph) == 0 && graph != nullptr);
        },
        {{"CACHALOT_RUN_FREE", rule}, {"CACHALOT_RUN_LEASH", "16KiB"}});
  }
}

TEST(Serving, GivesTheErrorOfTheWaitAndKeepsTheBlock) {
  serve_in_silence([](const Driver& driver) {
    driver.use();
    const DeviceAddress address = allocate(driver, 5000);
    driver.fake_fail("cuEventSynchronize", 700);
    CHECK(driver.cuMemFree_v2(address) == 700);
    free_block(driver, address);
  });
}

TEST(Serving, LeavesWhatIsNoBlockOfItsOwnToTheDriver) {
  serve_in_silence([](const Driver& driver) {
    driver.use();
    const DeviceAddress address = allocate(driver, 5000);
    free_block(driver, address);
    CHECK(driver.cuMemFree_v2(address) != 0);  // a second time
    CHECK(driver.cuMemFree_v2(address + 512) != 0);
    CHECK(driver.cuMemFree_v2(0) == 0);
    DeviceAddress none = 0;
    CHECK(driver.cuMemAlloc_v2(&none, 0) != 0);
    size_t pitch = 0;
    CHECK(driver.cuMemAllocPitch_v2(&none, &pitch, 100, 100, 4) == 0);
    free_block(driver, none);
    CHECK(driver.fake_calls("cuMemFree_v2") == 2);
  });
}

// ---- Streams

TEST(Serving, LeavesTheOrderOfStreamsToTheDriverUnlessItIsToldOtherwise) {
  const std::string said = serve([](const Driver& driver) {
    driver.use();
    const StreamHandle stream = make_stream(driver);
    DeviceAddress address = 0;
    CHECK(driver.cuMemAllocAsync(&address, 5000, stream) == 0);
    CHECK(driver.cuMemFreeAsync(address, stream) == 0);
    CHECK(driver.fake_calls("cuMemFreeAsync") == 1);
  });
  EXPECT_NE(said.find("not served: cuMemAllocAsync, which the driver's pool serves"),
            std::string::npos)
      << said;
}

TEST(Serving, OfStreamsReusesABlockOnItsStreamAtOnceAndElsewhereWhenTheWorkIsDone) {
  serve_in_silence(
      [](const Driver& driver) {
        driver.use();
        const StreamHandle stream = make_stream(driver);
        const StreamHandle other = make_stream(driver);
        DeviceAddress first = 0;
        DeviceAddress second = 0;
        CHECK(driver.cuMemAllocAsync(&first, 5000, stream) == 0);
        driver.fake_start_work();
        CHECK(driver.cuMemFreeAsync(first, stream) == 0);
        CHECK(driver.cuMemAllocAsync(&second, 5000, stream) == 0 && second == first);
        CHECK(driver.cuMemFreeAsync(second, other) == 0);
        DeviceAddress third = 0;
        CHECK(driver.cuMemAllocAsync(&third, 5000, stream) == 0 && third != first);
        driver.fake_finish_work();
        DeviceAddress fourth = 0;
        CHECK(driver.cuMemAllocAsync(&fourth, 5000, stream) == 0 && fourth == first);
        // cuMemFree of a block of a stream waits for everything.
        driver.fake_start_work();
        const LaterFinish finish(driver);
        free_block(driver, fourth);
        CHECK(driver.fake_finished() == 2);
        CHECK(driver.fake_calls("cuMemAllocAsync") == 0);
      },
      {{"CACHALOT_RUN_ASYNC", "cachalot"}});
}

TEST(Serving, LeavesNodesOfGraphsToTheDriver) {
  serve_in_silence(
      [](const Driver& driver) {
        driver.use();
        const StreamHandle stream = make_stream(driver);
        CHECK(driver.cuStreamBeginCapture_v2(stream, kRelaxedCapture) == 0);
        DeviceAddress address = 0;
        CHECK(driver.cuMemAllocAsync(&address, 5000, stream) == 0);
        CHECK(driver.cuMemFreeAsync(address, stream) == 0);
        CHECK(driver.fake_calls("cuMemAllocAsync") == 1);
        CHECK(driver.fake_calls("cuMemFreeAsync") == 1);
        Graph graph = nullptr;
        CHECK(driver.cuStreamEndCapture(stream, &graph) == 0);
      },
      {{"CACHALOT_RUN_ASYNC", "cachalot"}});
}

TEST(Serving, WaitsForAStreamThatIsDestroyedWhoseHandleMayComeBack) {
  serve_in_silence(
      [](const Driver& driver) {
        driver.use();
        const StreamHandle stream = make_stream(driver);
        CHECK(driver.cuStreamDestroy_v2(stream) == 0);
        CHECK(driver.fake_calls("cuStreamSynchronize") == 1);
      },
      {{"CACHALOT_RUN_ASYNC", "cachalot"}});
}

// ---- What the program asks of its memory

TEST(Serving, TellsOfABlockAsIfItWereAnAllocationOfItsOwn) {
  serve_in_silence([](const Driver& driver) {
    driver.use();
    allocate(driver, 5000);
    const DeviceAddress address = allocate(driver, 5000);
    DeviceAddress base = 0;
    size_t size = 0;
    CHECK(driver.cuMemGetAddressRange_v2(&base, &size, address + 700) == 0);
    CHECK(base == address && size == 5000);
    base = size = 0;
    std::array<int, 3> attributes{11, 2, 12};
    uint64_t kind = 0;
    std::array<void*, 3> out{&base, &kind, &size};
    CHECK(driver.cuPointerGetAttributes(3, attributes.data(), out.data(), address + 4999) == 0);
    CHECK(base == address && size == 5000 && kind == 77);
    base = 0;
    CHECK(driver.cuPointerGetAttribute(&base, 11, address + 1) == 0 && base == address);
  });
}

TEST(Serving, CountsWhatIsCachedAsFree) {
  for (const char* rule : kRules) {
    serve_in_silence(
        [](const Driver& driver) {
          driver.use();
          const size_t before = free_memory(driver);
          const DeviceAddress address = allocate(driver, 30 * kMiB);
          CHECK(free_memory(driver) == before - 30 * kMiB);
          free_block(driver, address);
          CHECK(free_memory(driver) == before);
        },
        {{"CACHALOT_RUN_FREE", rule}});
  }
}

TEST(Serving, KeepsALimitAndShowsItAsTheDevicesMemory) {
  for (const char* rule : kRules) {
    serve_in_silence(
        [](const Driver& driver) {
          driver.use();
          size_t free_bytes = 0;
          size_t total = 0;
          const DeviceAddress address = allocate(driver, 40 * kMiB);
          CHECK(driver.cuMemGetInfo_v2(&free_bytes, &total) == 0);
          CHECK(total == 64 * kMiB && free_bytes == 24 * kMiB);
          DeviceAddress more = 0;
          CHECK(driver.cuMemAlloc_v2(&more, 40 * kMiB) == kOutOfMemory);
          const StreamHandle stream = make_stream(driver);
          CHECK(driver.cuMemAllocAsync(&more, 40 * kMiB, stream) == kOutOfMemory);
          free_block(driver, address);
          free_block(driver, allocate(driver, 40 * kMiB));
        },
        {{"CACHALOT_RUN_LIMIT", "64MiB"}, {"CACHALOT_RUN_FREE", rule}});
  }
}

TEST(Serving, MakesRoomForARequestOfTheDriversOwn) {
  for (const char* rule : kRules) {
    serve_in_silence(
        [](const Driver& driver) {
          driver.use();
          free_block(driver, allocate(driver, uint64_t{12} << 30));
          DeviceAddress managed = 0;
          CHECK(driver.cuMemAllocManaged(&managed, uint64_t{8} << 30, 1) == 0);
          CHECK(driver.cuMemAllocManaged(&managed, uint64_t{12} << 30, 1) == kOutOfMemory);
        },
        {{"CACHALOT_RUN_FREE", rule}});
  }
}

TEST(Serving, HandsOutZerosIfItIsToldTo) {
  const auto program = [](bool expects_zeros) {
    return [expects_zeros](const Driver& driver) {
      driver.use();
      const DeviceAddress address = allocate(driver, 5000);
      std::memset(reinterpret_cast<void*>(address), 7, 5000);
      free_block(driver, address);
      CHECK(allocate(driver, 5000) == address);
      const auto* const bytes = reinterpret_cast<const char*>(address);
      CHECK(bytes[0] == (expects_zeros ? 0 : 7) && bytes[4999] == bytes[0]);
    };
  };
  serve_in_silence(program(true), {{"CACHALOT_RUN_CLEAR", "1"}});
  serve_in_silence(program(false));
}

TEST(Serving, KeepsABlockThatItCannotClear) {
  serve_in_silence(
      [](const Driver& driver) {
        driver.use();
        driver.fake_fail("cuMemsetD8Async", 700);
        DeviceAddress none = 0;
        CHECK(driver.cuMemAlloc_v2(&none, 5000) == 700 && none == 0);
        const uint64_t blocks_of_a_segment = 2 * kMiB / 5120;
        for (uint64_t i = 0; i < blocks_of_a_segment; i++) CHECK(allocate(driver, 5000) != 0);
        CHECK(driver.fake_calls("cuMemAlloc_v2") == 1);
      },
      {{"CACHALOT_RUN_CLEAR", "1"}});
}

// ---- Other processes

TEST(Serving, RefusesAHandleByWhichAnotherProcessWouldFindOtherData) {
  const std::string said = serve([](const Driver& driver) {
    driver.use();
    const DeviceAddress first = allocate(driver, 5000);
    const DeviceAddress second = allocate(driver, 5000);
    IpcMemoryHandle handle{};
    CHECK(driver.cuIpcGetMemHandle(&handle, first) == 0);
    CHECK(driver.cuIpcGetMemHandle(&handle, second) == kNotSupported);
    CHECK(driver.cuIpcGetMemHandle(&handle, second) == kNotSupported);
    DeviceAddress managed = 0;
    CHECK(driver.cuMemAllocManaged(&managed, 5000, 1) == 0);
    CHECK(driver.cuIpcGetMemHandle(&handle, managed) == 0);
  });
  EXPECT_NE(said.find("a handle for other processes"), std::string::npos) << said;
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
}

TEST(Serving, OfWholeBlocksGivesAHandleOfEach) {
  serve_in_silence(
      [](const Driver& driver) {
        driver.use();
        for (const uint64_t size : {uint64_t{5000}, uint64_t{5000}, 3 * kMiB}) {
          IpcMemoryHandle handle{};
          const DeviceAddress address = allocate(driver, size);
          CHECK(driver.cuIpcGetMemHandle(&handle, address) == 0);
          DeviceAddress base = 0;
          std::memcpy(&base, handle.reserved, sizeof base);
          CHECK(base == address);
        }
      },
      {{"CACHALOT_RUN_WHOLE", "1"}});
}

TEST(Serving, OfWholeBlocksReservesAQuarterMoreThanTheProgramHad) {
  serve_in_silence(
      [](const Driver& driver) {
        driver.use();
        const auto free_bytes = [] {
          void* const real = dlopen("libcachalot_real_cuda.so", RTLD_NOW);
          size_t available = 0;
          size_t total = 0;
          CHECK(reinterpret_cast<cuMemGetInfo_v2_form*>(dlsym(real, "cuMemGetInfo_v2"))(
                    &available, &total) == 0);
          return available;
        };
        const size_t before = free_bytes();
        for (int round = 0; round < 10; round++) {
          for (uint64_t size = kMiB; size <= 40 * kMiB; size += kMiB)
            free_block(driver, allocate(driver, size));
        }
        CHECK(before - free_bytes() <= 50 * kMiB);
        const uint64_t calls = driver.fake_calls("cuMemAlloc_v2");
        for (int i = 0; i < 100; i++) free_block(driver, allocate(driver, 39 * kMiB + i));
        CHECK(driver.fake_calls("cuMemAlloc_v2") <= calls + 1);
      },
      {{"CACHALOT_RUN_WHOLE", "1"}});
}

// ---- Contexts

TEST(Serving, GoesOnAfterAResetWithNothingOfWhatWasBefore) {
  for (const auto& [config, rule] : kConfigsAndRules) {
    serve_in_silence(
        [](const Driver& driver) {
          driver.use();
          for (int i = 0; i < 3; i++) {
            const DeviceAddress kept = allocate(driver, 5000);
            free_block(driver, allocate(driver, 30 * kMiB));
            free_block(driver, allocate(driver, 5000));  // waits in an open batch
            CHECK(driver.cuDevicePrimaryCtxReset_v2(0) == 0);
            CHECK(driver.cuMemFree_v2(kept) != 0);
            driver.use();
          }
          free_block(driver, allocate(driver, 5000));
          driver.fake_reset(0);  // which no hook sees
          free_block(driver, allocate(driver, 5000));
        },
        {{"CACHALOT_ALLOC_CONF", config}, {"CACHALOT_RUN_FREE", rule}});
  }
}

TEST(Serving, HoldsNoContextThatTheProgramHasReleased) {
  serve_in_silence([](const Driver& driver) {
    driver.use();
    free_block(driver, allocate(driver, 5000));
    CHECK(driver.cuDevicePrimaryCtxRelease_v2(0) == 0);
    unsigned flags = 0;
    int is_active = 1;
    CHECK(driver.cuDevicePrimaryCtxGetState(0, &flags, &is_active) == 0 && is_active == 0);
  });
}

// ---- Contexts of the program's own

Context create_context(const Driver& driver) {
  Context context = nullptr;
  CHECK(driver.cuCtxCreate_v2(&context, 0, 0) == 0);
  return context;
}

TEST(Serving, OfAContextThatTheProgramCreatesEndsWithIt) {
  for (const auto& [config, rule] : kConfigsAndRules) {
    serve_in_silence(
        [](const Driver& driver) {
          driver.use();
          const size_t before = free_memory(driver);
          for (int i = 0; i < 3; i++) {
            const Context context = create_context(driver);
            for (int j = 0; j < 100; j++) free_block(driver, allocate(driver, 5000));
            const DeviceAddress kept = allocate(driver, 30 * kMiB);
            CHECK(driver.cuCtxDestroy_v2(context) == 0);
            driver.use();
            CHECK(driver.cuMemFree_v2(kept) != 0);
            const uint64_t calls =
                driver.fake_calls("cuMemAlloc_v2") + driver.fake_calls("cuMemCreate");
            CHECK(calls % (static_cast<uint64_t>(i) + 1) == 0 && calls / (i + 1) <= 3);
            CHECK(free_memory(driver) == before);
          }
        },
        {{"CACHALOT_ALLOC_CONF", config}, {"CACHALOT_RUN_FREE", rule}});
  }
}

TEST(Serving, KeepsTheBlocksOfEachContextToIt) {
  serve_in_silence([](const Driver& driver) {
    driver.use();
    const DeviceAddress first = allocate(driver, 5000);
    const Context own = create_context(driver);
    const DeviceAddress second = allocate(driver, 5000);
    free_block(driver, first);
    driver.use();
    free_block(driver, second);
    CHECK(allocate(driver, 5000) == first);
    CHECK(driver.cuCtxSetCurrent(own) == 0);
    CHECK(allocate(driver, 5000) == second);
    CHECK(driver.fake_calls("cuMemAlloc_v2") == 2);
  });
}

TEST(Serving, GivesOneContextWhatIsCachedInAnother) {
  for (const char* rule : kRules) {
    serve_in_silence(
        [](const Driver& driver) {
          driver.use();
          const size_t before = free_memory(driver);
          free_block(driver, allocate(driver, uint64_t{12} << 30));
          create_context(driver);
          CHECK(free_memory(driver) == before);
          free_block(driver, allocate(driver, uint64_t{8} << 30));
        },
        {{"CACHALOT_RUN_FREE", rule}});
  }
}

TEST(Serving, KeepsALimitInOneContextOfADevice) {
  const std::string said = serve(
      [](const Driver& driver) {
        create_context(driver);
        for (int i = 0; i < 10; i++) free_block(driver, allocate(driver, 5000));
        CHECK(driver.fake_calls("cuMemAlloc_v2") == 1);
        create_context(driver);
        for (int i = 0; i < 10; i++) free_block(driver, allocate(driver, 5000));
        CHECK(driver.fake_calls("cuMemAlloc_v2") == 11);
      },
      {{"CACHALOT_RUN_LIMIT", "1073741824"}});
  EXPECT_NE(said.find("not served: memory in further contexts of a device"), std::string::npos)
      << said;
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
}

TEST(Serving, LeavesTheOrderOfStreamsInAContextOfTheProgramsToTheDriver) {
  const std::string said = serve(
      [](const Driver& driver) {
        create_context(driver);
        DeviceAddress address = 0;
        CHECK(driver.cuMemAllocAsync(&address, 5000, make_stream(driver)) == 0);
        free_block(driver, address);
        CHECK(driver.fake_calls("cuMemAllocAsync") == 1);
      },
      {{"CACHALOT_RUN_ASYNC", "cachalot"}});
  EXPECT_NE(said.find("not served: cuMemAllocAsync in contexts that the program creates"),
            std::string::npos)
      << said;
}

TEST(Serving, EndsTheCapturesOfAContextWithIt) {
  const auto program = [](const Driver& driver) {
    driver.use();
    const DeviceAddress address = allocate(driver, 5000);
    const Context own = create_context(driver);
    CHECK(driver.cuStreamBeginCapture_v2(make_stream(driver), kRelaxedCapture) == 0);
    CHECK(driver.cuCtxDestroy_v2(own) == 0);
    driver.use();
    free_block(driver, address);
    CHECK(allocate(driver, 5000) == address);
  };
  serve_in_silence(program);
  const RecordedRun recorded = run_recorded(program, {{"CACHALOT_RUN_FREE", "wait"}});
  EXPECT_EQ(recorded.status, 0) << recorded.output;
}

TEST(Serving, NotesACaptureWithTheContextOfItsStream) {
  serve_in_silence([](const Driver& driver) {
    driver.use();
    const DeviceAddress address = allocate(driver, 5000);
    const StreamHandle stream = make_stream(driver);
    const Context own = create_context(driver);
    CHECK(driver.cuStreamBeginCapture_v2(stream, kRelaxedCapture) == 0);
    CHECK(driver.cuCtxDestroy_v2(own) == 0);
    driver.use();
    // It is under way, so that no free may wait.
    free_block(driver, address);
    CHECK(driver.fake_calls("cuCtxRecordEvent") == 0);
  });
}

TEST(Serving, OfMoreContextsThanThereArePlacesLeavesTheRestToTheDriver) {
  const std::string said = serve([](const Driver& driver) {
    for (int i = 0; i < 200; i++) {
      const Context own = create_context(driver);
      allocate(driver, 5000);
      CHECK(driver.cuCtxDestroy_v2(own) == 0);
    }
    const uint64_t before = driver.fake_calls("cuMemAlloc_v2");
    CHECK(before == 200);
    std::vector<Context> contexts;
    for (int i = 0; i < 70; i++) {
      contexts.push_back(create_context(driver));
      for (int j = 0; j < 10; j++) free_block(driver, allocate(driver, 5000));
    }
    CHECK(driver.fake_calls("cuMemAlloc_v2") - before == 64 + 60);
  });
  EXPECT_NE(said.find("not served: memory in further contexts"), std::string::npos) << said;
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
}

TEST(ServingOfThreads, AreServedFromTheirFirstRequestOn) {
  serve_in_silence([](const Driver& driver) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; i++) {
      threads.emplace_back([&driver] {
        driver.use();
        for (int j = 0; j < 50; j++) CHECK(allocate(driver, 512) != 0);
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(driver.fake_calls("cuMemAlloc_v2") == 1);
  });
}

TEST(ServingOfThreads, CreateAndDestroyContexts) {
  for (const char* rule : kRules) {
    serve_in_silence(
        [](const Driver& driver) {
          driver.use();
          const uint64_t before = driver.fake_used();
          std::vector<std::thread> threads;
          for (int i = 0; i < 4; i++) {
            threads.emplace_back([&driver] {
              for (int round = 0; round < 30; round++) {
                const Context own = create_context(driver);
                const DeviceAddress kept = allocate(driver, 5000);
                for (int j = 0; j < 20; j++) free_block(driver, allocate(driver, 3 * kMiB));
                CHECK(kept != 0 && driver.cuCtxDestroy_v2(own) == 0);
              }
            });
          }
          for (std::thread& thread : threads) thread.join();
          driver.use();
          CHECK(driver.fake_used() == before);
        },
        {{"CACHALOT_RUN_FREE", rule}});
  }
}

TEST(Serving, KeepsTheMetricsOfTheLastContextThatHasEnded) {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("cachalot-" + std::to_string(getpid()) + ".prom");
  serve_in_silence(
      [](const Driver& driver) {
        const Context own = create_context(driver);
        allocate(driver, 5000);
        CHECK(driver.cuCtxDestroy_v2(own) == 0);
      },
      {{"CACHALOT_RUN_METRICS", file.string()}});
  std::ifstream in(file);
  const std::string page{std::istreambuf_iterator<char>(in), {}};
  std::filesystem::remove(file);
  EXPECT_NE(page.find("cachalot_requested_peak_bytes{device=\"0\",context=\""), std::string::npos)
      << page;
  // Which GPU that was.
  EXPECT_NE(page.find(",uuid=\"GPU-"), std::string::npos) << page;
}

TEST(Serving, ShowsTheLimitBeforeTheFirstRequest) {
  serve_in_silence(
      [](const Driver& driver) {
        size_t free_bytes = 0;
        size_t total = 0;
        driver.use();
        CHECK(driver.cuMemGetInfo_v2(&free_bytes, &total) == 0 && total == 1 << 30);
        create_context(driver);
        for (int i = 0; i < 10; i++) free_block(driver, allocate(driver, 5000));
        CHECK(driver.fake_calls("cuMemAlloc_v2") == 1);
      },
      {{"CACHALOT_RUN_LIMIT", "1073741824"}});
}

TEST(Serving, TellsTheContextsOfADeviceApartInTheMetrics) {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("cachalot-" + std::to_string(getpid()) + ".prom");
  serve_in_silence(
      [](const Driver& driver) {
        driver.use();
        allocate(driver, 5000);
        create_context(driver);
        allocate(driver, 30 * kMiB);
      },
      {{"CACHALOT_RUN_METRICS", file.string()}});
  std::ifstream in(file);
  const std::string page{std::istreambuf_iterator<char>(in), {}};
  std::filesystem::remove(file);
  EXPECT_TRUE(std::regex_search(
      page,
      std::regex("_allocated_bytes\\{device=\"0\",process=\"[0-9]+\",pool=\"small\"\\} 5120\n")))
      << page;
  EXPECT_NE(page.find("_allocated_bytes{device=\"0\",context=\""), std::string::npos) << page;
}

TEST(Serving, LeavesContextsOfUnknownOriginToTheDriverAndSaysSoOnce) {
  const std::string said = serve([](const Driver& driver) {
    driver.use();
    CHECK(driver.cuCtxSetCurrent(driver.fake_make_context()) == 0);
    size_t free_bytes = 0;
    size_t total = 0;
    CHECK(driver.cuMemGetInfo_v2(&free_bytes, &total) == 0);
    free_block(driver, allocate(driver, 5000));
    free_block(driver, allocate(driver, 5000));
    CHECK(driver.fake_calls("cuMemAlloc_v2") == 2);
  });
  EXPECT_NE(said.find("not served: memory in contexts of unknown origin"), std::string::npos)
      << said;
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
}

TEST(Serving, OfAGreenContextIsThatOfThePrimaryOne) {
  for (const char* rule : kRules) {
    serve_in_silence(
        [](const Driver& driver) {
          driver.use();
          Context primary = nullptr;
          CHECK(driver.cuCtxGetCurrent(&primary) == 0);
          const DeviceAddress first = allocate(driver, 30 * kMiB);
          GreenContext const made = driver.fake_make_green_context();
          Context green = nullptr;
          CHECK(driver.cuCtxFromGreenCtx(&green, made) == 0);
          CHECK(driver.cuCtxSetCurrent(green) == 0);
          free_block(driver, first);
          CHECK(allocate(driver, 30 * kMiB) == first);
          CHECK(driver.cuCtxSetCurrent(primary) == 0);
          free_block(driver, first);
          // A context of the program's own that has the handle of a green one which is gone.
          CHECK(driver.cuGreenCtxDestroy(made) == 0);
          Context own = nullptr;
          CHECK(driver.cuCtxCreate_v2(&own, 0, 0) == 0 && own == green);
          CHECK(allocate(driver, 30 * kMiB) != first);
          CHECK(driver.fake_calls("cuMemAlloc_v2") == 2);
        },
        {{"CACHALOT_RUN_FREE", rule}});
  }
}

// What was cached there is nothing that can be given back.
TEST(Serving, EndsThePrimaryContextWithTheGreenOneThatIsTheLastToHoldIt) {
  serve_in_silence([](const Driver& driver) {
    driver.use();
    GreenContext const made = driver.fake_make_green_context();
    const uint64_t before = driver.fake_used();
    free_block(driver, allocate(driver, 5000));
    CHECK(driver.cuDevicePrimaryCtxRelease_v2(0) == 0);
    CHECK(driver.fake_used() != before);
    CHECK(driver.cuGreenCtxDestroy(made) == 0);
    CHECK(driver.fake_used() == before);
    create_context(driver);
    driver.fake_fail("cuMemAllocManaged", kOutOfMemory);
    DeviceAddress managed = 0;
    CHECK(driver.cuMemAllocManaged(&managed, 5000, 1) ==
          kOutOfMemory);  // with nothing to give back
    CHECK(driver.fake_calls("cuMemFree_v2") == 0 && driver.fake_calls("cuMemAllocManaged") == 1);
  });
}

TEST(Serving, FreesABlockInTheContextOfItsDevice) {
  serve_in_silence([](const Driver& driver) {
    driver.use(0);
    const DeviceAddress first = allocate(driver, 5000);
    driver.use(1);
    const DeviceAddress second = allocate(driver, 5000);
    free_block(driver, first);
    driver.use(0);
    free_block(driver, second);
    CHECK(allocate(driver, 5000) == first);
    driver.use(1);
    CHECK(allocate(driver, 5000) == second);
    CHECK(driver.fake_calls("cuMemAlloc_v2") == 2);
  });
}

TEST(Serving, OfAForkedChildIsItsOwn) {
  serve_in_silence([](const Driver& driver) {
    const pid_t child = fork();
    driver.use();
    for (int i = 0; i < 10; i++) free_block(driver, allocate(driver, 5000));
    CHECK(driver.fake_calls("cuMemAlloc_v2") == 1);
    if (child == 0) std::_Exit(0);
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
  });
}

// ---- Recorded too

TEST(Serving, IsRecordedAsTheSameProgramWithoutIt) {
  const auto program = [](const Driver& driver) {
    driver.use();
    const DeviceAddress kept = allocate(driver, 3 * kMiB);
    for (uint64_t i = 1; i < 20; i++) free_block(driver, allocate(driver, i * 1000));
    free_block(driver, kept);
  };
  const RecordedRun plain = record(program);
  const RecordedRun served = record(program, {{"CACHALOT_RUN_FREE", "wait"}});
  EXPECT_EQ(lines_of(plain.trace()), lines_of(served.trace()));
}

}  // namespace
