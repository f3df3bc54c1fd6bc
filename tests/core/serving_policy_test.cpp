// SPDX-License-Identifier: MIT OR Apache-2.0
// The serving policy over a simulated device: which driver calls it makes, and what it needs of memory.
#include "alloc/serving/serving_policy.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../test_seed.h"
#include "alloc/allocator.h"
#include "alloc/native/hot_path.h"
#include "base/text.h"
#include "base/units.h"
#include "device/sim_driver.h"

namespace cachalot {
namespace {

constexpr Stream kFirst = 0x10;
constexpr Stream kSecond = 0x20;

class Serving : public testing::Test {
 protected:
  void open(uint64_t capacity, ServingOptions serving = {}, const std::string& config = "") {
    open_over(std::make_shared<SimDriver>(SimOptions{.capacity = capacity}), serving, config);
  }
  void open_over(std::shared_ptr<SimDriver> driver, ServingOptions serving,
                 const std::string& config = "") {
    driver_ = std::move(driver);
    driver_->machine().log_calls(kLogWaits);
    AllocatorOptions options;
    options.driver = driver_;
    options.config = config;
    serving.is_on = true;
    options.serving = serving;
    allocator_ = std::make_unique<Allocator>(options, [this](DeviceState& device) {
      device_ = &device;
      return std::make_unique<ServingPolicy>(device);
    });
  }
  Address allocate(uint64_t size, Stream stream = kFirst) {
    return allocator_->allocate(
        {.size = size, .device = 0, .stream = stream, .current_stream = stream});
  }
  void free(Address address) { allocator_->free(address, std::nullopt); }
  bool fails(uint64_t size, Stream stream = kFirst) {
    try {
      free(allocate(size, stream));
    } catch (const Error& error) {
      return error.status() == Status::kOutOfMemory;
    }
    return false;
  }
  // How often a stream was made to wait for another since the last question.
  int waits_in_log() { return calls_in_log("stream_wait"); }
  int calls_in_log(const char* name) {
    char text[1 << 16];
    driver_->machine().take_calls(text, sizeof text);
    int count = 0;
    for (const char* at = text; (at = std::strstr(at, name)) != nullptr; at++) count++;
    return count;
  }
  uint64_t free_memory() const {
    uint64_t free = 0, total = 0;
    driver_->memory_info(0, &free, &total);
    return free;
  }
  // Of addresses whose pages have moved away.
  int waiting_holes() const {
    int count = 0;
    device_->heap.for_each_block([&](const Block* block) {
      count += block->is(Block::kUnmapped) && block->is(Block::kWaiting);
    });
    return count;
  }
  // From one stream's cache to that of the other.
  void move_pages_whose_work_is_under_way() {
    free(allocate(64 * MiB, kFirst));
    driver_->machine().queue_work(0, kFirst);
    free(allocate(64 * MiB, kSecond));
    EXPECT_EQ(waiting_holes(), 1);
  }
  // What other threads of a server do meanwhile.
  void look_around() {
    uint64_t released = 0;
    allocator_->trim(0, {.keep_bytes = 64 * MiB}, &released);
    EXPECT_GE(allocator_->policy_stats(0).pages_created, 0u);
    EXPECT_GE(allocator_->stats(0).reserved_bytes.all.current, 0);
    allocator_->report({.size = 1 * MiB, .device = 0, .stream = kFirst, .current_stream = kFirst});
    allocator_->snapshot({}, false);
  }
  uint64_t reserved() {
    return static_cast<uint64_t>(allocator_->stats(0).reserved_bytes.all.current);
  }

  std::shared_ptr<SimDriver> driver_;
  DeviceState* device_ = nullptr;
  std::unique_ptr<Allocator> allocator_;
};

TEST_F(Serving, ReservesThePagesOfARequestAndNoMore) {
  open(1 * GiB);
  const Address block = allocate(5 * MiB);
  EXPECT_EQ(reserved(), 6 * MiB);
  free(block);
  EXPECT_EQ(reserved(), 6 * MiB);
  EXPECT_EQ(allocate(6 * MiB), block);
  EXPECT_EQ(reserved(), 6 * MiB);
  EXPECT_EQ(allocator_->check(), "");
}

TEST_F(Serving, GrowsIntoTheHoleBehindACachedBlock) {
  open(1 * GiB);
  const Address block = allocate(6 * MiB);
  free(block);
  EXPECT_EQ(allocate(10 * MiB), block);
  EXPECT_EQ(reserved(), 10 * MiB);
}

TEST_F(Serving, CutsWhateverIsLeftOfABlock) {
  open(1 * GiB);
  const Address block = allocate(8 * MiB);
  free(block);
  const Address front = allocate(3 * MiB);
  EXPECT_EQ(front, block);
  EXPECT_EQ(allocate(5 * MiB), block + 3 * MiB);
  EXPECT_EQ(reserved(), 8 * MiB);
}

TEST_F(Serving, BorrowsTheSmallestBlockThatFitsFromAnotherStream) {
  open(1 * GiB);
  const Address large = allocate(20 * MiB, kFirst);
  const Address between = allocate(2 * MiB, kFirst);
  const Address small = allocate(12 * MiB, kFirst);
  const Address behind = allocate(2 * MiB, kFirst);
  free(large);
  free(small);
  EXPECT_EQ(allocate(11 * MiB, kSecond), small);
  EXPECT_EQ(reserved(), 36 * MiB);
  EXPECT_EQ(allocator_->block(small).stream, kSecond);
  EXPECT_EQ(allocator_->check(), "");
  for (const Address block : {small, between, behind}) free(block);
  EXPECT_EQ(allocator_->check(), "");
}

TEST_F(Serving, LetsAStreamWaitOnceForTheOneThatItBorrowsFrom) {
  open(1 * GiB);
  for (int i = 0; i < 2; i++) free(allocate(4 * MiB, kFirst));
  free(allocate(4 * MiB, kSecond));
  EXPECT_EQ(waits_in_log(), 1);
  // Back to its own stream, which has to wait for the borrower.
  free(allocate(4 * MiB, kFirst));
  EXPECT_EQ(waits_in_log(), 1);
  // Nothing has happened on the second since.
  free(allocate(4 * MiB, kFirst));
  EXPECT_EQ(waits_in_log(), 0);
}

TEST_F(Serving, CountsALoanOnceItIsHandedOut) {
  open(1 * GiB);
  free(allocate(4 * MiB, kFirst));
  driver_->machine().fail({.calls = static_cast<uint32_t>(SimCall::kEventCreate) |
                                    static_cast<uint32_t>(SimCall::kSynchronize),
                           .code = 999,
                           .count = 2});
  EXPECT_THROW(allocate(4 * MiB, kSecond), Error);
  EXPECT_EQ(allocator_->policy_stats(0).blocks_borrowed, 0u);
  free(allocate(4 * MiB, kSecond));
  EXPECT_EQ(allocator_->policy_stats(0).blocks_borrowed, 1u);
}

TEST_F(Serving, MovesIdlePagesWhereNoBlockIsLargeEnough) {
  open(64 * MiB);
  const Address first = allocate(28 * MiB, kFirst);
  const Address used = allocate(2 * MiB, kFirst);
  const Address last = allocate(28 * MiB, kFirst);
  free(first);
  free(last);
  EXPECT_NE(allocate(40 * MiB, kSecond), 0u);
  EXPECT_EQ(reserved(), 60 * MiB) << "one page more than before";
  EXPECT_EQ(allocator_->check(), "");
  EXPECT_TRUE(fails(24 * MiB, kFirst));
  EXPECT_FALSE(fails(22 * MiB, kFirst));
  free(used);
}

TEST_F(Serving, TakesThePagesOfTheBlockThatHasBeenIdleForLongest) {
  open(32 * MiB);
  const Address early = allocate(8 * MiB, 0x10);
  const Address late = allocate(8 * MiB, 0x20);
  const Address used = allocate(16 * MiB, 0x30);
  free(early);
  EXPECT_TRUE(fails(17 * MiB, 0x30));  // a request that misses: the clock ticks
  free(late);
  const Address moved = allocate(10 * MiB, 0x40);  // all of the first, and a page of the second
  free(moved);
  EXPECT_EQ(allocate(6 * MiB, 0x20), late);
  free(used);
  EXPECT_EQ(allocator_->check(), "");
}

TEST_F(Serving, LeavesMemoryThatIsInUseAlone) {
  open(16 * MiB);
  const Address first = allocate(10 * MiB);
  EXPECT_TRUE(fails(8 * MiB, kSecond));
  free(first);
  EXPECT_FALSE(fails(8 * MiB, kSecond));
}

TEST_F(Serving, KeepsTheLimitBelowTheDevices) {
  open(1 * GiB);
  allocator_->set_memory_limit(0, 20 * MiB);
  const Address block = allocate(18 * MiB);
  EXPECT_TRUE(fails(4 * MiB));
  free(block);
  EXPECT_FALSE(fails(20 * MiB, kSecond));
  EXPECT_EQ(reserved(), 20 * MiB);
}

TEST_F(Serving, ReservesASixteenthMoreThanIsInUseBeforeIdlePagesMove) {
  open(4 * GiB);
  free(allocate(320 * MiB, kFirst));
  EXPECT_EQ(reserved(), 320 * MiB);
  // No block of the first stream is large enough. In use are 352 MiB, and a sixteenth of that are 22.
  const Address block = allocate(352 * MiB, kSecond);
  EXPECT_EQ(reserved(), 374 * MiB);
  EXPECT_EQ(allocator_->policy_stats(0).pages_moved, (352 - (374 - 320)) / 2);
  free(block);
}

TEST_F(Serving, MovesNoMorePagesOnceAlternatingPhasesHaveRaisedTheSoftLimit) {
  open(4 * GiB, {.borrow = Borrow::kNever});
  const auto alternate = [&] {
    for (int i = 0; i < 400; i++) free(allocate(64 * MiB, i % 2 ? kFirst : kSecond));
    return allocator_->policy_stats(0).pages_moved;
  };
  const uint64_t moved = alternate();
  EXPECT_GT(moved, 1000u);
  EXPECT_LT(moved, 64u * 32) << "64 moves for each page more";
  EXPECT_EQ(alternate(), moved);
  EXPECT_EQ(reserved(), 128 * MiB);
}

TEST_F(Serving, BeginsAnewWithTheSoftLimitWhenTheCacheIsEmptied) {
  open(4 * GiB, {.borrow = Borrow::kNever});
  free(allocate(640 * MiB, kFirst));
  allocator_->empty_cache(0);
  free(allocate(32 * MiB, kFirst));
  free(allocate(32 * MiB, kSecond));
  EXPECT_EQ(reserved(), 34 * MiB);
}

TEST_F(Serving, DoesNotRaiseTheSoftLimitWhereTheLimitMovesPages) {
  open(4 * GiB, {.borrow = Borrow::kNever});
  allocator_->set_memory_limit(0, 66 * MiB);
  for (int i = 0; i < 1000; i++) free(allocate(64 * MiB, i % 2 ? kFirst : kSecond));
  allocator_->set_memory_limit(0, 4 * GiB);
  free(allocate(64 * MiB, kSecond));
  EXPECT_EQ(reserved(), 68 * MiB);
}

TEST_F(Serving, MovesPagesWhoseWorkIsUnderWayAndUnmapsTheirAddressesOnceItIsDone) {
  open(4 * GiB, {.borrow = Borrow::kNever});
  free(allocate(64 * MiB, kFirst));
  driver_->machine().queue_work(0, kFirst);
  waits_in_log();
  allocate(64 * MiB, kSecond);
  EXPECT_EQ(reserved(), 68 * MiB);
  EXPECT_EQ(waits_in_log(), 1) << "on the device";
  EXPECT_EQ(waiting_holes(), 1);
  free(allocate(2 * MiB, 0x30));
  EXPECT_EQ(waiting_holes(), 1) << "the work is not done yet";
  driver_->machine().finish_device(0);
  free(allocate(2 * MiB, 0x40));
  EXPECT_EQ(waiting_holes(), 0);
  EXPECT_EQ(allocator_->policy_stats(0).host_waits, 0u);
  EXPECT_EQ(allocator_->check(), "");
}

TEST_F(Serving, WaitsForWorkThatKeepsAddressesMappedWhenTheCacheIsEmptied) {
  open(4 * GiB, {.borrow = Borrow::kNever});
  move_pages_whose_work_is_under_way();
  allocator_->empty_cache(0);
  EXPECT_EQ(waiting_holes(), 0);
  EXPECT_EQ(reserved(), 0u);
}

TEST_F(Serving, GivesTheMemoryOfPagesThatHaveMovedBackInTheTrimThatWaitedForTheirWork) {
  open(4 * GiB, {.borrow = Borrow::kNever});
  move_pages_whose_work_is_under_way();
  const uint64_t cached = reserved();
  uint64_t released = 0;
  allocator_->trim(0, {}, &released);
  EXPECT_EQ(released, cached);
  EXPECT_EQ(waiting_holes(), 0);
  EXPECT_EQ(free_memory(), 4 * GiB);
}

TEST_F(Serving, UnmapsAddressesThatWaitWhenItEnds) {
  open(4 * GiB, {.borrow = Borrow::kNever});
  move_pages_whose_work_is_under_way();
  driver_->machine().log_calls(kLogEverything);
  allocator_.reset();
  EXPECT_EQ(calls_in_log("unmap"), 32 + 32)
      << "each page once, and the old addresses of those that moved";
}

// As CUDA's runtime does.
class KeepsTheLastError final : public SimDriver {
 public:
  using SimDriver::SimDriver;
  DriverCode event_query(int device, uint64_t event) override {
    const DriverCode code = SimDriver::event_query(device, event);
    if (code != kSuccess) last_error = code;
    return code;
  }
  DriverCode take_pending_error(int) override { return std::exchange(last_error, kSuccess); }

  DriverCode last_error = kSuccess;
};

TEST_F(Serving, LeavesNoErrorBehindWhereWorkIsNotDone) {
  const auto driver = std::make_shared<KeepsTheLastError>(SimOptions{.capacity = 4 * GiB});
  open_over(driver, {.borrow = Borrow::kNever});
  move_pages_whose_work_is_under_way();
  EXPECT_EQ(driver->last_error, kSuccess);
}

TEST_F(Serving, MakesNewPagesWhereTheDriverCannotTellWhatIsDone) {
  for (const SimCall call : {SimCall::kEventCreate, SimCall::kEventRecord, SimCall::kEventQuery}) {
    open(4 * GiB, {.borrow = Borrow::kNever});
    driver_->machine().fail({static_cast<uint32_t>(call), kDriverNotSupported, 0, 1});
    free(allocate(64 * MiB, kFirst));
    free(allocate(64 * MiB, kSecond));
    EXPECT_EQ(reserved(), 128 * MiB);
    free(allocate(64 * MiB, 0x30));
    EXPECT_EQ(reserved(), 128 * MiB) << "it can by now";
    EXPECT_EQ(allocator_->policy_stats(0).host_waits, 0u);
  }
}

TEST_F(Serving, WithThriftWaitsForWorkBeforeItMakesNewPagesWhereTheDriverCannotTellWhatIsDone) {
  open(4 * GiB, {.thrift = true, .borrow = Borrow::kNever});
  free(allocate(64 * MiB, kFirst));
  driver_->machine().queue_work(0, kFirst);
  driver_->machine().fail({static_cast<uint32_t>(SimCall::kEventQuery), kDriverNotSupported, 0, 1});
  free(allocate(64 * MiB, kSecond));
  EXPECT_EQ(reserved(), 64 * MiB);
  EXPECT_EQ(allocator_->policy_stats(0).host_waits, 1u);
}

TEST_F(Serving, GrowsBeyondTheSoftLimitWithoutALookAtTheDeviceWhereNoPageIsIdle) {
  open(4 * GiB);
  driver_->machine().log_calls(kLogEverything);
  for (int i = 0; i < 8; i++) allocate(64 * MiB);
  EXPECT_EQ(reserved(), 512 * MiB);
  EXPECT_EQ(allocator_->policy_stats(0).pages_moved, 0u);
  EXPECT_EQ(calls_in_log("event"), 0);
}

TEST_F(Serving, GivesRangesThatHaveLostTheirPagesBackWhenTheCacheIsEmptiedOrTrimmed) {
  open(64 * MiB, {.borrow = Borrow::kNever});
  const auto empty = [&] { allocator_->empty_cache(0); };
  const auto trim = [&] {
    uint64_t released = 0;
    allocator_->trim(0, {}, &released);
  };
  for (const std::function<void()>& give_back : {std::function<void()>(empty), {trim}}) {
    for (Stream stream = 0x100; stream < 0x108; stream++) free(allocate(60 * MiB, stream));
    EXPECT_EQ(allocator_->expandable_totals().first, 8 * 72 * MiB);
    give_back();
    EXPECT_EQ(allocator_->expandable_totals().first, 0u);
    EXPECT_EQ(allocator_->check(), "");
  }
}

TEST_F(Serving, ForgetsAReleasedPoolWhoseRequestsHaveFailed) {
  open(64 * MiB);
  const Address used = allocate(60 * MiB);
  allocator_->pool_begin(0, {0, 7}, [](Stream) { return true; });
  EXPECT_TRUE(fails(8 * MiB));
  allocator_->pool_end(0, {0, 7});
  const uint64_t before = allocator_->expandable_totals().first;
  allocator_->pool_release(0, {0, 7});
  allocator_->empty_cache(0);
  EXPECT_EQ(allocator_->expandable_totals().first, before - 72 * MiB);
  EXPECT_EQ(allocator_->check(), "");
  free(used);
}

TEST_F(Serving, WithThriftMovesIdlePagesBeforeItMakesNewOnes) {
  open(1 * GiB, {.thrift = true});
  free(allocate(60 * MiB, kFirst));
  const Address other = allocate(64 * MiB, kSecond);
  EXPECT_EQ(reserved(), 64 * MiB);
  free(other);
}

TEST_F(Serving, WithThriftMovesNothingWhereTheDriverHasTooFewNewPages) {
  open(16 * MiB, {.thrift = true});
  const Address used = allocate(12 * MiB, kFirst);
  free(allocate(4 * MiB, kFirst));
  EXPECT_TRUE(fails(6 * MiB, kSecond));
  EXPECT_EQ(reserved(), 16 * MiB);
  free(used);
}

// Two tries: the place with the fewest pages to map, and the one with the fewest in all.
TEST_F(Serving, WithThriftLooksForAPlaceOnceWhereLoansComeLast) {
  open(16 * MiB, {.thrift = true, .borrow = Borrow::kAtLimit});
  const Address used = allocate(12 * MiB, kFirst);
  const uint64_t before = allocator_->policy_stats(0).pages_created;
  EXPECT_TRUE(fails(8 * MiB, kFirst));
  EXPECT_EQ(allocator_->policy_stats(0).pages_created - before, 4u);
  free(used);
}

TEST_F(Serving, LeavesAHoleInOnePieceWhereTheDriverRefusesToMap) {
  open(1 * GiB);
  driver_->machine().fail({.calls = static_cast<uint32_t>(SimCall::kMap), .code = 999});
  EXPECT_THROW(allocate(4 * MiB), Error);
  EXPECT_EQ(allocator_->check(), "");
  const Address block = allocate(4 * MiB);
  EXPECT_EQ(reserved(), 4 * MiB);
  free(block);
}

TEST_F(Serving, GrowsWithinACaptureBesideMemoryThatOtherStreamsUsed) {
  open(1 * GiB);
  const Address lent = allocate(4 * MiB, kFirst);
  free(lent);
  free(allocate(4 * MiB, kSecond));
  allocator_->capture_begin(0);
  const Address block = allocate(4 * MiB, kFirst);
  EXPECT_EQ(block, lent + 4 * MiB);
  EXPECT_EQ(allocator_->check(), "");
  allocator_->capture_end(0);
  free(block);
}

TEST_F(Serving, ServesWithinACaptureFromMemoryWhoseOtherStreamsHaveEnded) {
  open(1 * GiB, {.announces_streams = true});
  const Address lent = allocate(4 * MiB, kFirst);
  free(lent);
  free(allocate(4 * MiB, kSecond));
  allocator_->stream_ended(0, kSecond);
  allocator_->capture_begin(0);
  EXPECT_EQ(allocate(4 * MiB, kFirst), lent);
  allocator_->capture_end(0);
  free(lent);
}

// Its handle is gone when the frees of the capture are looked at.
TEST_F(Serving, RecordsNoEventOnAStreamThatHasEndedSinceACapture) {
  open(1 * GiB, {.announces_streams = true});
  const Address block = allocate(4 * MiB, kFirst);
  allocator_->record_stream(block, kSecond);
  driver_->machine().begin_capture(0, kFirst, 1);
  allocator_->capture_begin(0);
  free(block);
  allocator_->capture_end(0);
  driver_->machine().end_capture(0, 1);
  allocator_->stream_ended(0, kSecond);
  driver_->machine().fail({.calls = static_cast<uint32_t>(SimCall::kEventRecord), .code = 999});
  EXPECT_EQ(allocate(4 * MiB, kFirst), block);
  EXPECT_EQ(allocator_->check(), "");
  free(block);
}

TEST_F(Serving, AsksNothingOfAStreamThatHasEnded) {
  open(1 * GiB, {.announces_streams = true}, "graph_capture_record_stream_reuse:True");
  const Address block = allocate(4 * MiB, kFirst);
  allocator_->stream_ended(0, kFirst);
  allocator_->capture_begin(0);
  driver_->machine().fail({.calls = static_cast<uint32_t>(SimCall::kCaptureInfo), .code = 999});
  allocator_->record_stream(block, kSecond);
  EXPECT_NO_THROW(free(block));
  allocator_->capture_end(0);
  driver_->machine().finish_device(0);
  EXPECT_EQ(allocate(4 * MiB, kFirst), block);
  free(block);
}

TEST_F(Serving, GivesWholePagesBackWhenTheCacheIsEmptied) {
  open(1 * GiB);
  const Address kept = allocate(3 * MiB);
  free(allocate(20 * MiB));
  allocator_->empty_cache(0);
  EXPECT_EQ(reserved(), 4 * MiB);
  free(kept);
}

TEST_F(Serving, ReservesAddressesForTheRequestAloneWhereNoMoreAreToBeHad) {
  open(1 * GiB);
  const auto refuse = [&](uint64_t count) {
    driver_->machine().fail(
        {static_cast<uint32_t>(SimCall::kReserve), kDriverOutOfMemory, 0, count});
  };
  refuse(1);
  const Address block = allocate(5 * MiB);
  EXPECT_EQ(allocator_->expandable_totals().first, 6 * MiB);
  refuse(2);
  EXPECT_TRUE(fails(5 * MiB, kSecond));
  free(block);
  refuse(2);
  EXPECT_FALSE(fails(5 * MiB, kSecond)) << "lent";
  EXPECT_EQ(allocator_->check(), "");
}

TEST_F(Serving, NeedsVirtualMemory) {
  AllocatorOptions options;
  options.serving.is_on = true;
  options.serving.page_bytes = 1 * MiB;
  options.driver = std::make_shared<SimDriver>(SimOptions{.capacity = 1 * GiB});
  try {
    Allocator allocator(options);
    FAIL() << "pages smaller than the driver's";
  } catch (const Error& error) {
    EXPECT_STREQ(error.message().c_str(),
                 "pages of 1024.00 KiB are not a multiple of the driver's 2.00 MiB");
  }
}

// A random run: blocks are apart, the auditor finds nothing, and what one wave of requests leaves
// serves the next.
TEST_F(Serving, ServesRandomRequestsOfSeveralStreams) {
  const uint64_t seed = test_seed();
  for (uint64_t run = 0; run < 20; run++) {
    std::mt19937_64 random(seed + run);
    open((64 + random() % 192) * MiB, {.thrift = run % 2 == 1});
    std::vector<Address> live;
    for (int step = 0; step < 3000; step++) {
      const Stream stream = 0x10 * (1 + random() % 4);
      if (random() % 2 && !live.empty()) {
        std::swap(live[random() % live.size()], live.back());
        if (random() % 8 == 0) {
          allocator_->record_stream(live.back(), stream, std::nullopt);
          driver_->machine().queue_work(0, stream);
        }
        free(live.back());
        live.pop_back();
        continue;
      }
      if (random() % 64 == 0) driver_->machine().finish_device(0);
      if (random() % 256 == 0) allocator_->empty_cache(0);
      uint64_t size = uint64_t{512} << random() % 16;
      size += random() % size;
      try {
        live.push_back(allocate(size, stream));
      } catch (const Error& error) {
        ASSERT_EQ(error.status(), Status::kOutOfMemory) << error.message();
      }
      if (step % 100 == 0) {
        ASSERT_EQ(allocator_->check(), "") << "seed " << seed + run << " step " << step;
      }
    }
    for (const Address address : live) free(address);
    ASSERT_EQ(allocator_->check(), "") << "seed " << seed + run;
  }
}

// Nothing waits for other streams here, so a report can know what becomes of a request.
TEST_F(Serving, ReportsWhatBecomesOfARequest) {
  const uint64_t seed = test_seed();
  int seen[kOutcomeCount] = {};
  for (uint64_t run = 0; run < 12; run++) {
    std::mt19937_64 random(seed + run);
    open((64 + random() % 64) * MiB,
         {.thrift = run % 2 == 1, .borrow = static_cast<Borrow>(run % 3)});
    std::vector<Address> live;
    for (int step = 0; step < 600; step++) {
      if (random() % 2 && !live.empty()) {
        std::swap(live[random() % live.size()], live.back());
        free(live.back());
        live.pop_back();
        continue;
      }
      if (random() % 64 == 0) allocator_->empty_cache(0);
      if (random() % 64 == 0) allocator_->set_memory_limit(0, (16 + random() % 128) * MiB);
      const uint64_t size = (uint64_t{64 * KiB} << random() % 10) - random() % 4096;
      const Stream stream = 0x10 * (1 + random() % 3);
      const Outcome outcome =
          allocator_
              ->report({.size = size, .device = 0, .stream = stream, .current_stream = stream})
              .outcome;
      seen[static_cast<size_t>(outcome)]++;
      const uint64_t before = allocator_->policy_stats(0).pages_created;
      const uint64_t moved = allocator_->policy_stats(0).pages_moved;
      try {
        live.push_back(allocate(size, stream));
        ASSERT_NE(outcome, Outcome::kFails) << "seed " << seed + run << " step " << step;
        const PolicyStats after = allocator_->policy_stats(0);
        if (outcome == Outcome::kFromCache) {
          ASSERT_EQ(after.pages_moved, moved);
        } else if (outcome == Outcome::kFromDevice) {
          ASSERT_GT(after.pages_created + after.pages_moved, before + moved);
        }
      } catch (const Error& error) {
        ASSERT_EQ(error.status(), Status::kOutOfMemory) << error.message();
        ASSERT_EQ(outcome, Outcome::kFails) << "seed " << seed + run << " step " << step;
      }
    }
    for (const Address address : live) free(address);
  }
  for (const Outcome outcome :
       {Outcome::kFromCache, Outcome::kFromDevice, Outcome::kAfterRelease, Outcome::kFails})
    EXPECT_GT(seen[static_cast<size_t>(outcome)], 0);
}

// Hits and misses of threads that borrow from each other; for the thread sanitizer too.
TEST_F(Serving, ServesThreadsWithStreamsOfTheirOwn) {
  constexpr int kThreads = 4;
  open(96 * MiB);
  const uint64_t seed = test_seed();
  std::vector<std::thread> threads;
  for (int number = 0; number < kThreads; number++) {
    threads.emplace_back([this, seed, number] {
      std::mt19937_64 random(seed + static_cast<uint64_t>(number));
      const Stream stream = 0x10 * (1 + static_cast<Stream>(number));
      std::vector<Address> live;
      for (int step = 0; step < 4000; step++) {
        if (step % 256 == number) look_around();
        if (live.size() > 12 || (random() % 2 == 0 && !live.empty())) {
          std::swap(live[random() % live.size()], live.back());
          if (!allocator_->hits().try_free(live.back())) free(live.back());
          live.pop_back();
          continue;
        }
        uint64_t size = uint64_t{512} << random() % 14;
        size += random() % size;
        try {
          const Address hit = allocator_->hits().try_allocate(size, 0, stream);
          live.push_back(hit != 0 ? hit : allocate(size, stream));
        } catch (const Error& error) {
          EXPECT_EQ(error.status(), Status::kOutOfMemory) << error.message();
        }
      }
      for (const Address address : live) free(address);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(allocator_->check(), "");
  EXPECT_EQ(allocator_->live_blocks(), 0u);
}

}  // namespace
}  // namespace cachalot
