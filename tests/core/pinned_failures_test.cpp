// SPDX-License-Identifier: MIT OR Apache-2.0
// Pinned memory where calls of the driver fail: an error changes nothing, a free is never lost, and nothing leaks.
// PyTorch loses blocks there, or ends the process [pinned 8.1 to 8.6].
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "../test_seed.h"
#include "pinned_fixture.h"

namespace cachalot {
namespace {

constexpr Stream kStream = 0x50;
constexpr Stream kOther = 0x60;

class PinnedFailures : public PinnedTest {
 protected:
  PinnedFailures() : PinnedTest(2) {}

  // Lines of this defect, and only of it.
  size_t differences(const std::string& defect) const {
    const std::vector<std::string> lines = kept.differences();
    for (const std::string& line : lines)
      EXPECT_EQ(line.find("differs from PyTorch: " + defect + ": "), 0u) << line;
    return lines.size();
  }
};

TEST_F(PinnedFailures, OfARequestChangeNothing) {
  open();
  const Address cached = allocate(4096);
  allocator->free(cached);
  fail(SimCall::kHostAllocate);
  const Error error = error_of([&] { allocate(8192); });
  EXPECT_EQ(error.status(), Status::kDriver);
  EXPECT_EQ(error.driver_code(), kFailure);
  EXPECT_EQ(error.message().find("CUDA error: "), 0u) << error.message();
  EXPECT_EQ(obtained(), 1);
  EXPECT_EQ(active(), 0);
  EXPECT_EQ(allocate(4096), cached);
  allocate(8192);
  EXPECT_EQ(worked("host_free"), 0u);
}

TEST_F(PinnedFailures, ForWantOfMemoryAreTheDriversToo) {
  open();
  driver.machine().fail({static_cast<uint32_t>(SimCall::kHostAllocate), kDriverOutOfMemory, 0, 1});
  allocator->free(allocate(0));
  const Error error = error_of([&] { allocate(8192); });
  EXPECT_EQ(error.status(), Status::kDriver);
  EXPECT_EQ(error.driver_code(), kDriverOutOfMemory);
}

TEST_F(PinnedFailures, OfARegistrationChangeNothing) {
  open({.use_cuda_host_register = true});
  fail(SimCall::kHostAllocate);
  EXPECT_THROW(allocate(8192), Error);
  EXPECT_EQ(obtained(), 0);
  allocator->free(allocate(8192));
}

// U23
TEST_F(PinnedFailures, ToMakeAnEventKeepTheBlockUntilThereIsOne) {
  open();
  fail(SimCall::kEventCreate);
  const Address block = waiting_block(4096, kStream);
  ASSERT_EQ(kept.warnings().size(), 1u);
  EXPECT_EQ(kept.warnings()[0].find(
                "a pinned block that was freed waits until an event can be recorded: CUDA error: "),
            0u);
  EXPECT_EQ(differences("U23"), 1u);
  EXPECT_EQ(active(), 1);
  EXPECT_NE(allocate(4096), block);  // now it is recorded
  finish(kStream);
  EXPECT_EQ(allocate(4096), block);
  EXPECT_EQ(active(), 2);
  calls();
  EXPECT_EQ(worked("event_record 50"), 1u);
}

TEST_F(PinnedFailures, ToRecordAnEventKeepTheBlockAndTheOnesBehind) {
  open();
  const Address block = allocate(4096);
  for (const Stream stream : {kStream, kOther}) {
    driver.machine().queue_work(0, stream);
    allocator->record_stream(block, 0, stream);
  }
  fail(SimCall::kEventRecord, 3, 1);  // the second stream's, again and again
  EXPECT_NO_THROW(allocator->free(block));
  const Address behind = waiting_block(8192, kStream);
  finish(kStream);
  finish(kOther);
  for (int i = 0; i < 4; i++) allocator->free(allocate(16));
  EXPECT_EQ(kept.warnings().size(), 1u);  // once
  EXPECT_EQ(differences("U23"), 2u);      // once for each block
  EXPECT_EQ(allocate(4096), block);
  EXPECT_EQ(allocate(8192), behind);
  calls();
  EXPECT_EQ(worked("event_record"), 3u);
  EXPECT_LE(worked("event_create"), 3u);
}

TEST_F(PinnedFailures, ToAskAnEventEndTheRequestAndTheBlockGoesOnWaiting) {
  open();
  const Address block = waiting_block(4096, kStream);
  finish(kStream);
  fail(SimCall::kEventQuery);
  EXPECT_EQ(error_of([&] { allocate(4096); }).driver_code(), kFailure);
  EXPECT_EQ(differences("U23"), 1u);
  EXPECT_EQ(active(), 1);
  EXPECT_EQ(allocate(4096), block);
}

TEST_F(PinnedFailures, ToAskTheSecondEventOfABlockLoseNothing) {
  open();
  const Address block = allocate(4096);
  for (const int device : {0, 1}) allocator->record_stream(block, device, kStream);
  allocator->free(block);
  fail(SimCall::kEventQuery, 1, 1);
  EXPECT_THROW(allocator->empty_cache(), Error);
  EXPECT_EQ(allocate(4096), block);
  calls();
  EXPECT_EQ(worked("event_create"), 2u);
}

// U24
TEST_F(PinnedFailures, ToGiveBackLeaveTheBlockAndThoseBehindCached) {
  open();
  std::vector<Address> blocks;
  for (int i = 0; i < 4; i++) blocks.push_back(allocate(4096));
  const Address larger = allocate(8192);
  for (const Address block : blocks) allocator->free(block);
  allocator->free(larger);
  fail(SimCall::kHostFree, 1, 1);
  const Error error = error_of([&] { allocator->empty_cache(); });
  EXPECT_EQ(error.driver_code(), kFailure);
  EXPECT_EQ(differences("U24"), 1u);
  EXPECT_EQ(obtained(), 4);
  EXPECT_EQ(allocator->check(), "");
  // The order of the class is what it was.
  for (const size_t i : {size_t{3}, size_t{2}, size_t{1}}) EXPECT_EQ(allocate(4096), blocks[i]);
  EXPECT_EQ(allocate(8192), larger);
}

TEST_F(PinnedFailures, ToGiveBackAtAFreeLeaveTheBlockCached) {
  open({.max_cached_size = 1024});
  const Address block = allocate(4096);
  fail(SimCall::kHostFree);
  EXPECT_NO_THROW(allocator->free(block));
  EXPECT_EQ(differences("U24"), 1u);
  EXPECT_EQ(active(), 0);
  EXPECT_EQ(obtained(), 1);
  EXPECT_EQ(status_of([&] { allocator->free(block); }), Status::kInvalidArgument);
  EXPECT_EQ(allocate(4096), block);
  allocator->free(block);
  EXPECT_EQ(obtained(), 0);
}

TEST_F(PinnedFailures, ToGiveBackWhenAStreamIsDoneAreNoErrorOfTheRequest) {
  open({.max_cached_size = 1024});
  const Address block = waiting_block(4096, kStream);
  const Address behind = waiting_block(8192, kStream);
  finish(kStream);
  fail(SimCall::kHostFree);
  EXPECT_NO_THROW(allocate(16));
  EXPECT_EQ(obtained(), 2);
  EXPECT_EQ(allocate(4096), block);
  EXPECT_EQ(status_of([&] { allocator->size_of(behind); }), Status::kInvalidArgument);
}

TEST_F(PinnedFailures, ToUnregisterLeaveTheBlockUsable) {
  open({.use_cuda_host_register = true});
  const Address block = allocate(4096);
  allocator->free(block);
  fail(SimCall::kHostFree);
  EXPECT_THROW(allocator->empty_cache(), Error);
  EXPECT_EQ(allocate(4096), block);
  *reinterpret_cast<char*>(block) = 1;
}

TEST_F(PinnedFailures, OfCaptureQuestionsEndARequestThatARouteSees) {
  open();
  allocator->pool_begin({1, 0}, [](Stream) { return false; });
  fail(SimCall::kCaptureInfo);
  EXPECT_EQ(error_of([&] { allocate(16); }).driver_code(), kFailure);
  EXPECT_EQ(active(), 0);
  allocate(16);
}

TEST_F(PinnedFailures, AtTheEndStopNothing) {
  open();
  waiting_block(4096, kStream);
  fail(SimCall::kEventSynchronize);
  EXPECT_NO_THROW(allocator->free_all());
  EXPECT_EQ(active(), 0);
  fail(SimCall::kEventRecord);
  waiting_block(4096, kStream);  // without an event: the stream is waited for
  fail(SimCall::kSynchronize);
  close();
}

// Any call may fail at any time: blocks are handed out once, and in the end all of it is given back.
TEST_F(PinnedFailures, AtRandomLoseNoBlock) {
  Random random(test_seed());
  open({.max_cached_size = 256 * KiB});
  const SimCall kinds[] = {SimCall::kHostAllocate, SimCall::kHostFree, SimCall::kEventCreate,
                           SimCall::kEventRecord, SimCall::kEventQuery};
  std::vector<Address> live;
  const auto attempt = [](const auto& call) {
    try {
      call();
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::kDriver) << error.message();
    }
  };
  for (int i = 0; i < 20'000; i++) {
    if (random.one_in(5)) fail(random.pick(kinds), random.between(1, 3), random.below(4));
    const int device = static_cast<int>(random.below(2));
    const Stream stream = 0x50 + 0x10 * random.below(3);
    if (live.size() < 20 && random.one_in(2)) {
      attempt([&] {
        const Address block = allocate(random.of_any_magnitude(1, MiB));
        EXPECT_EQ(std::count(live.begin(), live.end(), block), 0);
        live.push_back(block);
      });
    } else if (!live.empty() && random.one_in(2)) {
      Address& block = random.pick(live);
      allocator->free(block);  // never fails
      block = live.back();
      live.pop_back();
    } else if (!live.empty()) {
      driver.machine().queue_work(device, stream);
      allocator->record_stream(random.pick(live), device, stream);
    }
    if (random.one_in(10)) driver.machine().finish_device(device);
    if (random.one_in(50)) attempt([&] { allocator->empty_cache(); });
    ASSERT_EQ(allocator->live_blocks(), live.size());
    if (i % 100 == 0) {
      ASSERT_EQ(allocator->check(), "");
      calls();
    }
  }
  for (const SimCall kind : kinds) fail(kind);  // one more of each, so that no order is left
  for (const Address block : live) allocator->free(block);
  for (const int device : {0, 1}) driver.machine().finish_device(device);
  bool is_emptied = false;
  for (int i = 0; i < 50 && !is_emptied; i++) {
    try {
      allocator->empty_cache();
      is_emptied = active() == 0 && obtained() == 0;
    } catch (const Error&) {
    }
  }
  EXPECT_TRUE(is_emptied);
  EXPECT_EQ(pinned_bytes(), 0u);
}

}  // namespace
}  // namespace cachalot
