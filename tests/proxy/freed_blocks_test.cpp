// SPDX-License-Identifier: MIT OR Apache-2.0
// Programs whose freed blocks wait for events (`cachalot run --free event`), call by call.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "recorded_program.h"

using namespace proxy_test;

namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

TEST(ServingByEvents, DoesNotWaitAndHandsOutABlockWhenTheWorkIsDone) {
  serve_in_silence(
      [](const Driver& driver) {
        driver.use();
        const DeviceAddress first = allocate(driver, 30 * kMiB);
        driver.fake_start_work();
        free_block(driver, first);
        CHECK(driver.fake_finished() == 0);
        const DeviceAddress second = allocate(driver, 30 * kMiB);
        CHECK(second != first);
        driver.fake_finish_work();
        CHECK(allocate(driver, 30 * kMiB) == first);
      },
      {{"CACHALOT_RUN_FREE", "event"}});
}

TEST(ServingByEvents, RecordsOneForSixteenBlocksOrAnEighthOfTheLeash) {
  serve_in_silence(
      [](const Driver& driver) {
        driver.use();
        std::vector<DeviceAddress> blocks;
        for (int i = 0; i < 47; i++) blocks.push_back(allocate(driver, 5000));
        driver.fake_start_work();
        for (const DeviceAddress block : blocks) free_block(driver, block);
        CHECK(driver.fake_calls("cuCtxRecordEvent") == 2);
        const DeviceAddress small = allocate(driver, 5000);
        const DeviceAddress large = allocate(driver, 9 * kMiB);
        free_block(driver, large);
        CHECK(driver.fake_calls("cuCtxRecordEvent") ==
              4);  // the miss of the large one closes the third
        driver.fake_finish_work();
        free_block(driver, small);
      },
      {{"CACHALOT_RUN_FREE", "event"}});
}

TEST(ServingByEvents, RefusesASecondFreeOfABlockThatWaits) {
  serve_in_silence(
      [](const Driver& driver) {
        driver.use();
        const DeviceAddress block = allocate(driver, 5000);
        free_block(driver, block);
        CHECK(driver.cuMemFree_v2(block) == 1);
        CHECK(driver.fake_calls("cuMemFree_v2") == 0);
      },
      {{"CACHALOT_RUN_FREE", "event"}});
}

// The blocks that wait are all that there is.
TEST(ServingByEvents, WaitsBeforeARequestFailsForLackOfMemory) {
  serve_in_silence(
      [](const Driver& driver) {
        driver.use();
        size_t free_bytes = 0;
        size_t total = 0;
        CHECK(driver.cuMemGetInfo_v2(&free_bytes, &total) == 0);
        const uint64_t most = free_bytes / 4 * 3;
        const DeviceAddress first = allocate(driver, most);
        driver.fake_start_work();
        free_block(driver, first);
        const LaterFinish finish(driver);
        CHECK(allocate(driver, most) == first);
        CHECK(driver.fake_finished() == 1);
      },
      {{"CACHALOT_RUN_FREE", "event"}, {"CACHALOT_RUN_LEASH", "1TiB"}});
}

// Another thread that frees on and on, at the only moment that matters.
TEST(ServingByEvents, WaitsForTheFreesBeforeARequestOnly) {
  serve_in_silence(
      [](const Driver& driver) {
        driver.use();
        static const Driver* used;
        static std::vector<DeviceAddress> others;
        used = &driver;
        const uint64_t most = uint64_t{12} << 30;
        const DeviceAddress first = allocate(driver, most);
        for (int i = 0; i < 3; i++) others.push_back(allocate(driver, 5000));
        driver.fake_start_work();
        free_block(driver, first);
        static void (*free_another)() = [] {
          used->fake_finish_work();
          if (others.empty()) return;
          free_block(*used, others.back());
          others.pop_back();
          used->fake_queue_work();
          used->fake_before("cuEventSynchronize", free_another);
        };
        driver.fake_before("cuEventSynchronize", free_another);
        CHECK(allocate(driver, most) == first);
        CHECK(driver.fake_calls("cuEventSynchronize") == 1);
        driver.fake_finish_work();
      },
      {{"CACHALOT_RUN_FREE", "event"}, {"CACHALOT_RUN_LEASH", "1TiB"}});
}

// A device that is full, say.
TEST(Serving, WaitsWithoutAnEventWhereTheDriverMakesNone) {
  for (const char* rule : {"wait", "event"}) {
    serve_in_silence(
        [](const Driver& driver) {
          driver.use();
          static const Driver* used;
          used = &driver;
          static void (*fail_again)() = [] {
            used->fake_fail("cuEventCreate", 2);
            used->fake_before("cuEventCreate", fail_again);
          };
          const uint64_t most = uint64_t{12} << 30;
          const DeviceAddress first = allocate(driver, most);
          driver.fake_start_work();
          fail_again();
          const LaterFinish finish(driver);
          free_block(driver, first);
          CHECK(allocate(driver, most) == first);
          CHECK(driver.fake_finished() == 1);
        },
        {{"CACHALOT_RUN_FREE", rule}, {"CACHALOT_RUN_LEASH", "1TiB"}});
  }
}

TEST(ServingByEvents, GivesAnErrorOfTheContextFromTheFreeAndKeepsTheBlock) {
  serve_in_silence(
      [](const Driver& driver) {
        driver.use();
        const DeviceAddress block = allocate(driver, 3 * kMiB);
        driver.fake_fail("cuCtxRecordEvent", 700);
        CHECK(driver.cuMemFree_v2(block) == 700);
        free_block(driver, block);
      },
      {{"CACHALOT_RUN_FREE", "event"}, {"CACHALOT_RUN_LEASH", "4MiB"}});
}

TEST(ServingByEvents, GivesAnErrorOfTheContextFromEachRequest) {
  serve_in_silence(
      [](const Driver& driver) {
        driver.use();
        free_block(driver, allocate(driver, 5000));
        free_block(driver, allocate(driver, 3 * kMiB));
        DeviceAddress none = 0;
        for (int i = 0; i < 2; i++) {
          driver.fake_fail("cuEventQuery", 700);
          CHECK(driver.cuMemAlloc_v2(&none, 5000) == 700);
        }
        CHECK(driver.cuMemAlloc_v2(&none, 5000) == 0);
      },
      {{"CACHALOT_RUN_FREE", "event"}, {"CACHALOT_RUN_LEASH", "4MiB"}});
}

// By what was closed: a hit finds a block of the same size class.
TEST(ServingByEvents, AsksForAnEventAtTheRequestAfterItsBatch) {
  serve_in_silence(
      [](const Driver& driver) {
        driver.use();
        std::vector<DeviceAddress> blocks;
        for (int i = 0; i < 17; i++) blocks.push_back(allocate(driver, 5000));
        for (int i = 0; i < 16; i++) free_block(driver, blocks[static_cast<size_t>(i)]);
        CHECK(driver.fake_calls("cuEventQuery") == 0);
        const DeviceAddress next = allocate(driver, 5000);
        CHECK(driver.fake_calls("cuEventQuery") == 1);
        CHECK(std::find(blocks.begin(), blocks.end(), next) != blocks.end());
        allocate(driver, 5000);
        CHECK(driver.fake_calls("cuEventQuery") == 1);
      },
      {{"CACHALOT_RUN_FREE", "event"}});
}

TEST(ServingByEvents, WaitsForTheOldestWorkOnlyBeyondTheLeash) {
  serve_in_silence(
      [](const Driver& driver) {
        driver.use();
        std::vector<DeviceAddress> blocks;
        for (int i = 0; i < 3; i++) blocks.push_back(allocate(driver, 3 * kMiB));
        for (int i = 0; i < 2; i++) {
          driver.fake_queue_work();
          free_block(driver, blocks[static_cast<size_t>(i)]);
        }
        driver.fake_queue_work();
        static const Driver* used;
        used = &driver;
        driver.fake_before("cuEventSynchronize", [] { used->fake_finish_to(1); });
        free_block(driver, blocks[2]);
        CHECK(driver.fake_finished() == 1);
        driver.fake_finish_work();
      },
      {{"CACHALOT_RUN_FREE", "event"}, {"CACHALOT_RUN_LEASH", "7MiB"}});
}

TEST(ServingByEvents, WaitsWhereMoreBytesAreOnTheirWayThanTheLeash) {
  serve_in_silence(
      [](const Driver& driver) {
        driver.use();
        const DeviceAddress first = allocate(driver, 3 * kMiB);
        const DeviceAddress second = allocate(driver, 3 * kMiB);
        driver.fake_start_work();
        free_block(driver, first);
        CHECK(driver.fake_finished() == 0);
        const LaterFinish finish(driver);
        free_block(driver, second);
        CHECK(driver.fake_finished() == 1);
      },
      {{"CACHALOT_RUN_FREE", "event"}, {"CACHALOT_RUN_LEASH", "4MiB"}});
}

}  // namespace
