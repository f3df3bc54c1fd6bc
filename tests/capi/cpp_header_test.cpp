// SPDX-License-Identifier: MIT OR Apache-2.0
// The types of cachalot/cachalot.hpp over simulated devices and host memory.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "../instructions.h"
#include "../sanitizers.h"
#include "cachalot/cachalot.hpp"

namespace {

using cachalot::Allocator;
using cachalot::Block;
using cachalot::Driver;
using cachalot::Error;
using cachalot::OutOfMemory;

constexpr uint64_t MiB = uint64_t{1} << 20;
constexpr cachalot_stream kOther = 0x20;

Allocator make(const Driver& driver, const char* config = "") {
  return Allocator({.driver = driver.get(), .config = config, .no_caching = -1});
}
Allocator make(const char* driver = "sim:1GiB", const char* config = "") {
  return make(Driver(driver), config);
}

int64_t live_blocks(const Allocator& allocator) { return allocator.stats().allocation.all.current; }

// The status of the error that a call throws; CACHALOT_OK if it throws none.
cachalot_status status_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_STRNE(error.what(), "");
    return error.status();
  }
  return CACHALOT_OK;
}

template <class T>
constexpr bool kIsOwner =
    std::is_nothrow_move_constructible_v<T>&& std::is_nothrow_move_assignable_v<T> &&
    !std::is_copy_constructible_v<T> && !std::is_copy_assignable_v<T> &&
    std::is_nothrow_destructible_v<T>;
static_assert(kIsOwner<Driver> && kIsOwner<Allocator> && kIsOwner<Block>);
static_assert(kIsOwner<cachalot::PinnedBlock> && kIsOwner<cachalot::Report>);
static_assert(kIsOwner<cachalot::Pool> && kIsOwner<cachalot::PoolScope>);
static_assert(kIsOwner<cachalot::Tenant> && kIsOwner<cachalot::EmptyCacheGuard>);
// One that took another's place would begin before that ended.
template <class T>
constexpr bool kStays = !std::is_move_constructible_v<T> && !std::is_move_assignable_v<T> &&
                        !std::is_copy_constructible_v<T> && !std::is_copy_assignable_v<T>;
static_assert(kStays<cachalot::TenantScope> && kStays<cachalot::Label>);
static_assert(std::is_nothrow_copy_constructible_v<OutOfMemory>, "as an exception should be");

TEST(CppHeader, ABlockIsFreedWithItsScope) {
  Allocator allocator = make();
  {
    const Block block = allocator.allocate(MiB, 0, kOther);
    EXPECT_TRUE(block);
    EXPECT_EQ(block.allocator(), allocator.get());
    EXPECT_EQ(block.info().requested, MiB);
    EXPECT_EQ(block.info().stream, kOther);
    EXPECT_EQ(live_blocks(allocator), 1);
  }
  EXPECT_EQ(live_blocks(allocator), 0);
  allocator.close();
}

TEST(CppHeader, ARequestOfNoBytesGivesNoBlock) {
  Allocator allocator = make();
  const Block block = allocator.allocate(0);
  EXPECT_FALSE(block);
  EXPECT_EQ(status_of([&] { (void)block.info(); }), CACHALOT_ERROR_INVALID_ARGUMENT);
}

TEST(CppHeader, AFreeWithoutABlockDoesNothingHoweverOftenItIsCalled) {
  Allocator allocator = make("host:64MiB");
  Block blocks[] = {Block(), allocator.allocate(0), allocator.allocate(MiB)};
  for (Block& block : blocks) {
    EXPECT_NO_THROW(block.free());
    EXPECT_NO_THROW(block.free());
    EXPECT_NO_THROW(block.free_on_stream(0));
  }
  cachalot::PinnedBlock pinned = allocator.allocate_pinned(1000);
  EXPECT_NO_THROW(pinned.free());
  EXPECT_NO_THROW(pinned.free());
  EXPECT_EQ(allocator.stats().allocation.all.freed, 1);
}

TEST(CppHeader, AMovedBlockIsFreedOnce) {
  Allocator allocator = make();
  Block first = allocator.allocate(MiB);
  const cachalot_address address = first.address();
  Block second(std::move(first));
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(second.address(), address);
  std::vector<Block> blocks;
  blocks.push_back(std::move(second));
  EXPECT_EQ(live_blocks(allocator), 1);
  blocks.clear();
  EXPECT_EQ(live_blocks(allocator), 0);
  EXPECT_EQ(allocator.stats().allocation.all.freed, 1);
}

TEST(CppHeader, AnAssignedBlockFreesWhatItOwnedBefore) {
  Allocator allocator = make();
  Block block = allocator.allocate(MiB);
  block = allocator.allocate(2 * MiB);
  EXPECT_EQ(live_blocks(allocator), 1);
  EXPECT_EQ(block.info().requested, 2 * MiB);
  Block& same = block;
  block = std::move(same);
  EXPECT_EQ(live_blocks(allocator), 1);
  EXPECT_TRUE(block);
}

TEST(CppHeader, AReleasedBlockStaysLiveUntilItIsTakenBack) {
  Allocator allocator = make();
  Block block = allocator.allocate(MiB);
  const cachalot_address address = block.release();
  EXPECT_FALSE(block);
  EXPECT_EQ(live_blocks(allocator), 1);
  { const Block again(allocator.get(), address); }
  EXPECT_EQ(live_blocks(allocator), 0);
}

TEST(CppHeader, AFreeOfABlockThatSomebodyElseFreedIsToldByFreeAndPassedOverByTheDestructor) {
  Allocator allocator = make();
  Block told = allocator.allocate(MiB);
  Block passed_over = allocator.allocate(MiB);
  for (const Block* block : {&told, &passed_over}) {
    EXPECT_EQ(cachalot_free(allocator.get(), block->address(), nullptr), CACHALOT_OK);
  }
  EXPECT_EQ(status_of([&] { told.free(); }), CACHALOT_ERROR_INVALID_ARGUMENT);
  EXPECT_FALSE(told);
  { const Block ended = std::move(passed_over); }
  EXPECT_EQ(allocator.stats().allocation.all.freed, 2);
  allocator.check();
}

TEST(CppHeader, ARecordedStreamIsWaitedForAfterAFree) {
  const Driver driver = Driver::sim({.capacity = 64 * MiB});
  Allocator allocator = make(driver);
  Block block = allocator.allocate(20 * MiB);
  EXPECT_EQ(cachalot_sim_queue_work(driver.get(), 0, kOther, nullptr), CACHALOT_OK);
  block.record_stream(kOther);
  const cachalot_address address = block.address();
  block.free_on_stream(0);
  EXPECT_NE(allocator.allocate(20 * MiB).address(), address);
  EXPECT_EQ(cachalot_sim_finish_stream(driver.get(), 0, kOther, nullptr), CACHALOT_OK);
  allocator.empty_cache();
  EXPECT_EQ(allocator.memory_reserved(), 0U);
}

TEST(CppHeader, ARequestMaySayAllThatItMayInC) {
  Allocator allocator = make();
  const Block block = allocator.allocate({.size = 1000, .stream = kOther});
  EXPECT_EQ(block.info().stream, kOther);
  EXPECT_EQ(status_of([&] { (void)allocator.allocate({.size = 1000, .device = 7}); }),
            CACHALOT_ERROR_INVALID_ARGUMENT);
}

TEST(CppHeader, OutOfMemoryHasAllNumbers) {
  Allocator allocator = make("sim:64MiB");
  allocator.set_memory_limit(0, 32 * MiB);
  const Block block = allocator.allocate(20 * MiB, 0, kOther);
  try {
    (void)allocator.allocate(40 * MiB, 0, kOther);
    FAIL() << "40 MiB of 64";
  } catch (const OutOfMemory& error) {
    const cachalot_error& numbers = error.record();
    EXPECT_EQ(error.status(), CACHALOT_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(numbers.struct_size, sizeof numbers);
    EXPECT_EQ(numbers.requested, 40 * MiB);
    EXPECT_EQ(numbers.segment_size, 40 * MiB);
    EXPECT_EQ(numbers.device_total, 64 * MiB);
    EXPECT_EQ(numbers.device_free, 44 * MiB);
    EXPECT_EQ(numbers.limit, 32 * MiB);
    EXPECT_EQ(numbers.allocated, 20 * MiB);
    EXPECT_EQ(numbers.reserved, 20 * MiB);
    EXPECT_EQ(numbers.stream, kOther);
    EXPECT_EQ(numbers.device, 0);
    EXPECT_EQ(std::string(error.what()).find("CUDA out of memory. Tried to allocate 40.00 MiB."),
              0U)
        << error.what();
  }
  EXPECT_NO_THROW((void)allocator.allocate(MiB));
}

TEST(CppHeader, AnErrorIsAnExceptionOfTheStandardLibrary) {
  Allocator allocator = make();
  EXPECT_THROW(allocator.configure("no_such_option:1"), std::exception);
  EXPECT_EQ(status_of([&] { allocator.configure("no_such_option:1"); }),
            CACHALOT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(status_of([] { const Driver driver("no such driver"); }),
            CACHALOT_ERROR_INVALID_ARGUMENT);
}

TEST(CppHeader, TheDriversCodeIsPassedOn) {
  const Driver driver = Driver::sim();
  Allocator allocator = make(driver);
  const cachalot_sim_failure failure = {.struct_size = sizeof failure,
                                        .calls = CACHALOT_SIM_CALL_ALLOCATE,
                                        .code = 700,
                                        .after = 0,
                                        .count = 1};
  EXPECT_EQ(cachalot_sim_fail(driver.get(), &failure, nullptr), CACHALOT_OK);
  try {
    (void)allocator.allocate(MiB);
    FAIL() << "the driver has failed";
  } catch (const OutOfMemory&) {
    FAIL() << "the device has memory";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), CACHALOT_ERROR_DRIVER);
    EXPECT_EQ(error.record().driver_code, 700);
  }
}

TEST(CppHeader, WhatWasMovedFromAnswersWithAnError) {
  Allocator allocator = make();
  const Allocator moved = std::move(allocator);
  EXPECT_EQ(allocator.get(), nullptr);  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(status_of([&] { (void)allocator.allocate(1); }), CACHALOT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(status_of([&] { (void)allocator.metrics(); }), CACHALOT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(status_of([&] { (void)allocator.create_pool(); }), CACHALOT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(allocator.memory_allocated(), 0U);
  EXPECT_NO_THROW(allocator.close());
}

TEST(CppHeader, NothingMayBeWrittenForTheDefaults) {
  static_assert(std::is_constructible_v<Driver, std::nullptr_t>);
  ASSERT_EQ(setenv("CACHALOT_DRIVER", "sim:1GiB", 1), 0);
  EXPECT_STREQ(Driver(nullptr).name(), "sim");
  for (const Allocator& allocator : {Allocator(), Allocator({}), Allocator{}})
    EXPECT_STREQ(cachalot_driver_name(cachalot_allocator_driver(allocator.get())), "sim");
  ASSERT_EQ(unsetenv("CACHALOT_DRIVER"), 0);
}

TEST(CppHeader, AnAllocatorThatIsGivenAwayIsNotEndedUntilItIsTakenOver) {
  cachalot_allocator* given = nullptr;
  {
    Allocator allocator = make();
    given = allocator.release();
    EXPECT_EQ(allocator.get(), nullptr);
  }
  Allocator taken = Allocator::own(given);
  EXPECT_EQ(taken.get(), given);
  EXPECT_TRUE(taken.allocate(MiB));
  taken.close();
}

TEST(CppHeader, BlocksFollowAnAllocatorThatIsMoved) {
  Allocator allocator = make();
  Block block = allocator.allocate(MiB);
  Allocator moved = std::move(allocator);
  block.free();
  EXPECT_EQ(live_blocks(moved), 0);
  moved.close();
}

TEST(CppHeader, AnAllocatorOutlivesTheDriverObjectItWasMadeOf) {
  std::optional<Driver> driver(std::in_place, "host:64MiB");
  EXPECT_STREQ(driver->name(), "host");
  EXPECT_EQ(driver->device_count(), 1);
  Allocator allocator = make(*driver);
  driver.reset();
  const Block block = allocator.allocate(sizeof(int));
  *block.data<int>() = 7;
  EXPECT_EQ(*static_cast<int*>(block.data()), 7);
}

TEST(CppHeader, ADriverThatWasMadeInCCanBeTakenOver) {
  cachalot_driver* raw = nullptr;
  EXPECT_EQ(cachalot_driver_create_host(MiB, 2, &raw, nullptr), CACHALOT_OK);
  const Driver driver = Driver::own(raw);
  EXPECT_EQ(driver.get(), raw);
  EXPECT_EQ(driver.device_count(), 2);
}

TEST(CppHeader, AnAllocatorWithALiveBlockCannotBeClosed) {
  Allocator allocator = make();
  Block block = allocator.allocate(MiB);
  EXPECT_EQ(status_of([&] { allocator.close(); }), CACHALOT_ERROR_INVALID_STATE);
  EXPECT_NE(allocator.get(), nullptr);
  block.free();
  allocator.close();
  EXPECT_EQ(allocator.get(), nullptr);
}

TEST(CppHeader, CloseAllFreesWhatWasReleased) {
  Allocator allocator = make();
  EXPECT_NE(allocator.allocate(MiB).release(), 0U);
  allocator.close_all();
  EXPECT_EQ(allocator.get(), nullptr);
}

TEST(CppHeader, AnAllocatorWithALiveBlockIsLeftBehindAndItsBlockCanStillBeFreed) {
  std::optional<Allocator> allocator(make());
  cachalot_allocator* const handle = allocator->get();
  Block block = allocator->allocate(MiB);
  testing::internal::CaptureStderr();
  allocator.reset();
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(said.find("cachalot: an allocator was left behind: "), 0U) << said;
  EXPECT_EQ(block.info().requested, MiB);
  block.free();
  EXPECT_EQ(cachalot_allocator_destroy(handle, nullptr), CACHALOT_OK);
}

TEST(CppHeader, AnAllocatorWithoutLiveBlocksEndsSilently) {
  testing::internal::CaptureStderr();
  { (void)make().allocate(MiB); }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(CppHeader, TheCacheIsEmptyAfterAScopeHoweverItIsLeft) {
  Allocator allocator = make();
  const auto leave = [&](bool by_exception) {
    const auto guard = allocator.empty_cache_on_exit();
    const Block block = allocator.allocate(MiB);
    if (by_exception) throw std::runtime_error("the work has failed");
  };
  leave(false);
  EXPECT_EQ(allocator.memory_reserved(), 0U);
  EXPECT_THROW(leave(true), std::runtime_error);
  EXPECT_EQ(allocator.memory_reserved(), 0U);
  EXPECT_EQ(allocator.stats().segment.all.allocated, 2);
}

TEST(CppHeader, RequestsOfAScopeComeFromItsPool) {
  Allocator allocator = make();
  cachalot::Pool pool = allocator.create_pool();
  EXPECT_EQ(pool.use_count(), 1);
  {
    const auto scope = pool.route();
    EXPECT_EQ(pool.use_count(), 2);
    EXPECT_EQ(allocator.allocate(MiB).info().pool.second, pool.id().second);
  }
  EXPECT_EQ(pool.use_count(), 1);
  EXPECT_EQ(allocator.allocate(MiB).info().pool.second, 0U);
}

TEST(CppHeader, ARoutingThatIsLeftByAnExceptionEnds) {
  Allocator allocator = make();
  cachalot::Pool pool = allocator.create_pool();
  const auto leave = [&] {
    const auto scope = pool.route({.kind = CACHALOT_ROUTE_ALL});
    throw std::runtime_error("the work has failed");
  };
  EXPECT_THROW(leave(), std::runtime_error);
  EXPECT_EQ(pool.use_count(), 1);
  EXPECT_EQ(allocator.allocate(MiB).info().pool.second, 0U);
}

TEST(CppHeader, ARoutingThatIsRefusedLeavesTheUseCountAsItWas) {
  Allocator allocator = make();
  cachalot::Pool pool = allocator.create_pool();
  const auto scope = pool.route();
  EXPECT_EQ(status_of([&] { (void)pool.route(); }), CACHALOT_ERROR_INVALID_STATE);
  EXPECT_EQ(pool.use_count(), 2);
}

TEST(CppHeader, ARoutingCanBeMovedAndThenEndsLater) {
  Allocator allocator = make();
  cachalot::Pool pool = allocator.create_pool();
  std::vector<cachalot::PoolScope> scopes;
  { scopes.push_back(pool.route()); }
  EXPECT_EQ(allocator.allocate(MiB).info().pool.second, pool.id().second);
  scopes.clear();
  EXPECT_EQ(allocator.allocate(MiB).info().pool.second, 0U);
}

TEST(CppHeader, APoolThatEndedGivesItsCacheBack) {
  Allocator allocator = make();
  const cachalot_pool_id id = {0, 77};
  {
    cachalot::Pool pool = allocator.join_pool(0, id, {.flags = CACHALOT_POOL_NO_SPLIT});
    const cachalot::Pool joined = allocator.join_pool(0, id);
    EXPECT_EQ(pool.use_count(), 2);
    const auto scope = pool.route();
    (void)allocator.allocate(MiB);
  }
  EXPECT_GT(allocator.memory_reserved(), 0U);
  allocator.empty_cache();
  EXPECT_EQ(allocator.memory_reserved(), 0U);
}

TEST(CppHeader, ATenantHasItsBlocksAndItsLimit) {
  Allocator allocator = make();
  cachalot::Tenant tenant = allocator.create_tenant({.name = "model", .limit_bytes = 8 * MiB});
  {
    const Block block = tenant.allocate(4 * MiB);
    EXPECT_EQ(tenant.stats().allocated_bytes.current, static_cast<int64_t>(4 * MiB));
    EXPECT_THROW((void)tenant.allocate(6 * MiB), OutOfMemory);
    tenant.set_bytes(0, 16 * MiB);
    EXPECT_NO_THROW((void)tenant.allocate(6 * MiB));
  }
  tenant.set_priority(3);
  EXPECT_EQ(tenant.stats().priority, 3);
  tenant.close();
  EXPECT_EQ(tenant.get(), nullptr);
}

TEST(CppHeader, RequestsOfATenantsScopeAreItsOwnHoweverTheScopeIsLeft) {
  Allocator allocator = make();
  cachalot::Tenant tenant = allocator.create_tenant();
  std::vector<Block> blocks;
  const auto leave = [&] {
    const auto scope = tenant.enter();
    blocks.push_back(allocator.allocate(MiB));
    throw std::runtime_error("the work has failed");
  };
  EXPECT_THROW(leave(), std::runtime_error);
  blocks.push_back(allocator.allocate(MiB));
  EXPECT_EQ(tenant.stats().allocation.current, 1);
  blocks.clear();
  tenant.close();
}

TEST(CppHeader, ATenantWithLiveBlocksIsLeftBehindAndGoesWithItsAllocator) {
  Allocator allocator = make();
  Block block;
  testing::internal::CaptureStderr();
  cachalot_tenant* handle = nullptr;
  {
    cachalot::Tenant tenant = allocator.create_tenant();
    handle = tenant.get();
    block = tenant.allocate(MiB);
    EXPECT_EQ(status_of([&] { tenant.close(); }), CACHALOT_ERROR_INVALID_STATE);
  }
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(said.find("cachalot: a tenant was left behind: "), 0U) << said;
  block.free();
  allocator.close();
  EXPECT_EQ(cachalot_tenant_destroy(handle, nullptr), CACHALOT_OK);
}

TEST(CppHeader, WhatIsAllocatedUnderLabelsCountsForThemHoweverTheyAreLeft) {
  Allocator allocator({.driver = Driver("sim:1GiB").get(), .config = "", .track_labels = 1});
  const auto leave = [&] {
    const cachalot::Label model(std::string("model-a"));
    const cachalot::Label cache("kv-cache");
    (void)allocator.allocate(MiB);
    throw std::runtime_error("the work has failed");
  };
  EXPECT_THROW(leave(), std::runtime_error);
  (void)allocator.allocate(MiB);
  const auto rows = allocator.label_stats();
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_STREQ(rows[0].label, "model-a/kv-cache");
  EXPECT_EQ(rows[0].allocation.allocated, 1);
  EXPECT_EQ(status_of([] { const cachalot::Label none(""); }), CACHALOT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(cachalot_label_pop(nullptr), CACHALOT_ERROR_INVALID_STATE);
}

TEST(CppHeader, PinnedMemoryIsTakenBackWithItsScope) {
  Allocator allocator = make("host:64MiB");
  {
    cachalot::PinnedBlock block = allocator.allocate_pinned(1000);
    EXPECT_GE(block.size(), 1000U);
    block.data<char>()[999] = 'x';
    block.record_stream(kOther);
    cachalot::PinnedBlock moved = std::move(block);
    EXPECT_FALSE(block);  // NOLINT(bugprone-use-after-move)
    EXPECT_TRUE(moved);
  }
  cachalot::PinnedBlock again = allocator.allocate_pinned(1000);
  EXPECT_EQ(allocator.pinned_stats().allocations.allocated, 1);
  again.free();
  EXPECT_FALSE(again);
  cachalot::PinnedBlock given = allocator.allocate_pinned(1000);
  const cachalot::PinnedBlock taken(allocator.get(), given.release());
  EXPECT_TRUE(taken);
}

TEST(CppHeader, TextsComeInOneCall) {
  Allocator allocator = make("sim:1GiB", "max_split_size_mb:64");
  const Block block = allocator.allocate(MiB);
  EXPECT_EQ(allocator.config(), "max_split_size_mb:64");
  EXPECT_NE(allocator.memory_summary().find("Allocated memory"), std::string::npos);
  EXPECT_LT(allocator.memory_summary(0, true).size(), allocator.memory_summary().size());
  EXPECT_NE(allocator.metrics().find("cachalot_"), std::string::npos);
  const cachalot::Report report = allocator.report({.size = 2 * MiB});
  EXPECT_NE(report.text().find("2.00 MiB"), std::string::npos) << report.text();
  EXPECT_EQ(report.json().front(), '{');
  EXPECT_EQ(report.json().back(), '}');
}

// A text like snprintf that is longer at the second call than the first has said.
int growing_calls = 0;
cachalot_status write_growing(char* buffer, size_t capacity, size_t* length, cachalot_error*) {
  const std::string text(++growing_calls == 1 ? 100 : 250, 'x');
  *length = text.size();
  buffer[text.copy(buffer, capacity - 1)] = '\0';
  return CACHALOT_OK;
}

TEST(CppHeader, ATextThatGrowsBetweenTwoCallsIsWhole) {
  growing_calls = 0;
  EXPECT_EQ(cachalot::detail::text<write_growing>(), std::string(250, 'x'));
  EXPECT_EQ(growing_calls, 3);
}

TEST(CppHeader, OptionsCanBeReadAndSet) {
  Allocator allocator = make();
  allocator.update_config(std::string("max_split_size_mb:64"));
  cachalot_settings settings = allocator.settings();
  EXPECT_EQ(settings.max_split_size, 64 * MiB);
  settings.max_split_size = 128 * MiB;
  allocator.set_settings(settings);
  EXPECT_EQ(allocator.settings().max_split_size, 128 * MiB);
  allocator.configure(std::string());
  EXPECT_EQ(allocator.memory_limit(), UINT64_MAX);
}

TEST(CppHeader, IdleMemoryGoesBack) {
  Allocator allocator = make();
  (void)allocator.allocate(20 * MiB);
  EXPECT_EQ(allocator.trim(0), 20 * MiB);
  EXPECT_EQ(allocator.memory_reserved(), 0U);
  (void)allocator.allocate(20 * MiB);
  allocator.empty_cache(0);
  EXPECT_EQ(allocator.memory_reserved(), 0U);
  (void)allocator.allocate(20 * MiB);
  allocator.release_context(0);
  EXPECT_EQ(allocator.memory_reserved(), 0U);
  EXPECT_EQ(allocator.stats().allocation.all.peak, 1);
  allocator.reset_peak_stats();
  allocator.reset_accumulated_stats();
  EXPECT_EQ(allocator.stats().allocation.all.peak, 0);
  EXPECT_EQ(allocator.stats().allocation.all.allocated, 0);
}

TEST(CppHeader, ThreadsShareAnAllocatorAndFreeEachOthersBlocks) {
  Allocator allocator = make();
  constexpr size_t kThreads = 4;
  constexpr size_t kBlocks = 200;
  std::vector<std::vector<Block>> made(kThreads);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      const cachalot::Label label("thread");
      for (size_t k = 0; k < kBlocks; ++k) {
        made[i].push_back(allocator.allocate(1000, 0, i));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(live_blocks(allocator), static_cast<int64_t>(kThreads * kBlocks));
  threads.clear();
  for (size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] { made[(i + 1) % kThreads].clear(); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(live_blocks(allocator), 0);
  allocator.check();
  allocator.close();
}

constexpr uint64_t kPairs = 10;

// Of hits and their frees.
uint64_t cost_of(void (*pair)(Allocator&)) {
  return cachalot_test::instructions_of([pair] {
    const auto allocator = std::make_shared<Allocator>(make());
    return [=] {
      for (uint64_t i = 0; i < kPairs; ++i) pair(*allocator);
    };
  });
}

volatile cachalot_address used = 0;

template <bool IsCleared>
void pair_in_c(Allocator& allocator) {
  static cachalot_error kept;
  kept.struct_size = sizeof kept;
  if constexpr (IsCleared) kept = CACHALOT_ERROR_INIT;
  cachalot_address address = 0;
  if (cachalot_allocate(allocator.get(), 1000, 0, 0, &address, &kept) != CACHALOT_OK) abort();
  used = address;
  cachalot_free(allocator.get(), address, nullptr);
}

TEST(CppHeader, AHitCostsAFewInstructionsMoreThanInCAndFarFewerThanWithAnErrorThatIsCleared) {
#ifndef __OPTIMIZE__
  GTEST_SKIP() << "nothing is inlined";
#endif
  if (CACHALOT_HEAP_IS_SANITIZED) GTEST_SKIP() << "a sanitizer adds instructions of its own";
  const uint64_t in_cpp =
      cost_of([](Allocator& allocator) { used = allocator.allocate(1000).address(); });
  const uint64_t in_c = cost_of(pair_in_c<false>);
  EXPECT_LT(in_cpp, in_c + 20 * kPairs) << "in C: " << in_c;
  EXPECT_LT(in_cpp, cost_of(pair_in_c<true>));
}

}  // namespace
