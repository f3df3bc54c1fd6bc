// SPDX-License-Identifier: MIT OR Apache-2.0
// Pinned memory through the C interface: PyTorch's allocator of it, and a cache like that of a device.
#include "cachalot/pinned.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "../count_of.h"
#include "cachalot/cachalot.h"

namespace {

using cachalot_test::count_of;

constexpr uint64_t kKiB = uint64_t{1} << 10;
constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr cachalot_stream kStream = 0x50;

// How an allocator is made. No pinned_config: PyTorch's cache.
struct HowToMake {
  const char* driver = "sim:1GiB";
  const char* pinned_config = nullptr;
  const char* config = "";
};

class Pinned {
 public:
  explicit Pinned(const HowToMake& setup = {}) {
    ok(cachalot_driver_open(setup.driver, &driver_, &error));
    create(setup);
  }
  explicit Pinned(cachalot_driver* driver, const HowToMake& setup = {}) : driver_(driver) {
    create(setup);
  }
  ~Pinned() {
    EXPECT_EQ(cachalot_check(allocator_, &error), CACHALOT_OK) << error.message;
    EXPECT_EQ(cachalot_allocator_destroy_all(allocator_, &error), CACHALOT_OK) << error.message;
    cachalot_driver_destroy(driver_);
  }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;

  cachalot_allocator* get() const { return allocator_; }
  cachalot_driver* driver() const { return driver_; }
  cachalot_allocator* inner() const { return cachalot_pinned_allocator(allocator_); }

  void ok(cachalot_status status) { ASSERT_EQ(status, CACHALOT_OK) << error.message; }
  // Expects a failure of a call that gets `error`, and gives its text.
  std::string refused(cachalot_status status, cachalot_status expected) {
    EXPECT_EQ(status, expected) << error.message;
    return status == CACHALOT_OK ? "" : error.message;
  }

  cachalot_status try_allocate(uint64_t size, void** out) {
    return cachalot_pinned_allocate(allocator_, size, out, &error);
  }
  void* allocate(uint64_t size) {
    void* memory = nullptr;
    ok(try_allocate(size, &memory));
    return memory;
  }
  void free(void* memory) { ok(cachalot_pinned_free(allocator_, memory, &error)); }
  cachalot_status record(void* memory, cachalot_stream stream = kStream, int32_t device = 0) {
    return cachalot_pinned_record_stream(allocator_, memory, device, stream, &error);
  }
  uint64_t size_of(void* memory) {
    uint64_t size = 0;
    ok(cachalot_pinned_size(allocator_, memory, &size, &error));
    return size;
  }
  void empty_cache() { ok(cachalot_pinned_empty_cache(allocator_, &error)); }
  cachalot_pinned_stats stats() {
    cachalot_pinned_stats stats = {};
    stats.struct_size = sizeof stats;
    ok(cachalot_pinned_get_stats(allocator_, &stats, &error));
    return stats;
  }
  void fail(uint32_t calls, int32_t code = 999, uint64_t count = 1) {
    cachalot_sim_failure failure = {};
    failure.struct_size = sizeof failure;
    failure.calls = calls;
    failure.code = code;
    failure.count = count;
    ok(cachalot_sim_fail(driver_, &failure, &error));
  }
  void queue_work(cachalot_stream stream = kStream, int32_t device = 0) {
    ok(cachalot_sim_queue_work(driver_, device, stream, &error));
  }
  void finish(cachalot_stream stream = kStream, int32_t device = 0) {
    ok(cachalot_sim_finish_stream(driver_, device, stream, &error));
  }

  cachalot_error error = CACHALOT_ERROR_INIT;

 private:
  void create(const HowToMake& setup) {
    cachalot_allocator_options options = {};
    options.struct_size = sizeof options;
    options.driver = driver_;
    options.config = setup.config;
    options.pinned_config = setup.pinned_config;
    options.track_labels = 1;
    ok(cachalot_allocator_create(&options, &allocator_, &error));
  }

  cachalot_driver* driver_ = nullptr;
  cachalot_allocator* allocator_ = nullptr;
};

// What comes of an allocator with these options.
cachalot_error error_of_creation(cachalot_driver* driver, const char* pinned_config) {
  cachalot_error error = CACHALOT_ERROR_INIT;
  cachalot_allocator_options options = {};
  options.struct_size = sizeof options;
  options.driver = driver;
  options.config = "";
  options.pinned_config = pinned_config;
  cachalot_allocator* allocator = nullptr;
  EXPECT_NE(cachalot_allocator_create(&options, &allocator, &error), CACHALOT_OK);
  EXPECT_EQ(allocator, nullptr);
  return error;
}

// Of a simulated driver that logs them, since the last look.
std::string calls_of(Pinned& with) {
  size_t length = 0;
  with.ok(cachalot_sim_read_calls(with.driver(), nullptr, 0, &length, &with.error));
  std::string calls(length + 1, '\0');
  with.ok(cachalot_sim_read_calls(with.driver(), calls.data(), calls.size(), nullptr, &with.error));
  return calls;
}

// ---- Both caches, on both drivers

class PinnedOfBothKinds : public testing::TestWithParam<HowToMake> {
 protected:
  Pinned with{GetParam()};
};

std::string name_of(const testing::TestParamInfo<HowToMake>& info) {
  const char* const config = info.param.pinned_config;
  const std::string kind = config == nullptr ? "Default"
                           : *config == 0    ? "Cache"
                                             : "CacheWithOptions";
  return (info.param.driver[0] == 'h' ? "Host" : "Sim") + kind;
}

INSTANTIATE_TEST_SUITE_P(All, PinnedOfBothKinds,
                         testing::Values(HowToMake{}, HowToMake{"sim:1GiB", ""},
                                         HowToMake{"sim:1GiB", "max_split_size_mb:64"},
                                         HowToMake{"host:1GiB"}, HowToMake{"host:1GiB", ""},
                                         HowToMake{"host:1GiB", "max_split_size_mb:64"}),
                         name_of);

TEST_P(PinnedOfBothKinds, CanBeWrittenAndReadToTheLastByteOfEachSize) {
  std::vector<void*> blocks;
  for (const uint64_t size : {uint64_t{1}, uint64_t{511}, uint64_t{4097}, kMiB + 1, 30 * kMiB}) {
    void* const memory = with.allocate(size);
    const uint64_t has = with.size_of(memory);
    EXPECT_GE(has, size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 512, 0u);
    std::memset(memory, static_cast<int>(blocks.size()) + 1, has);
    blocks.push_back(memory);
  }
  for (size_t i = 0; i < blocks.size(); i++) {
    const auto* const bytes = static_cast<const unsigned char*>(blocks[i]);
    EXPECT_EQ(bytes[0], i + 1);
    EXPECT_EQ(bytes[with.size_of(blocks[i]) - 1], i + 1);
    with.free(blocks[i]);
  }
}

TEST_P(PinnedOfBothKinds, OfNoBytesIsNull) {
  void* memory = &with;
  with.ok(with.try_allocate(0, &memory));
  EXPECT_EQ(memory, nullptr);
  with.free(nullptr);
  EXPECT_EQ(with.stats().active_requests.current, 0);
}

TEST_P(PinnedOfBothKinds, IsCachedAndGivenBackWithAnEmptiedCache) {
  void* const memory = with.allocate(30 * kMiB);
  with.free(memory);
  EXPECT_EQ(with.stats().allocations.current, 1);
  EXPECT_EQ(with.allocate(30 * kMiB), memory);
  with.free(memory);
  with.empty_cache();
  const cachalot_pinned_stats stats = with.stats();
  EXPECT_EQ(stats.allocations.current, 0);
  EXPECT_EQ(stats.allocated_bytes.current, 0);
  EXPECT_EQ(stats.allocations.allocated, 1);
  EXPECT_EQ(stats.allocations.freed, 1);
  EXPECT_EQ(stats.active_requests.allocated, 2);
  EXPECT_EQ(stats.active_bytes.current, 0);
  EXPECT_EQ(stats.active_requests.peak, 1);
  EXPECT_EQ(stats.allocate_times.count, 1);
  EXPECT_EQ(stats.free_times.count, 1);
  with.ok(cachalot_pinned_reset_peak_stats(with.get(), &with.error));
  with.ok(cachalot_pinned_reset_accumulated_stats(with.get(), &with.error));
  EXPECT_EQ(with.stats().allocations.peak, 0);
  EXPECT_EQ(with.stats().active_requests.allocated, 0);
  EXPECT_EQ(with.stats().free_times.count, 0);
  EXPECT_EQ(with.stats().free_times.max, 0);
}

TEST_P(PinnedOfBothKinds, HasNoPlaceInTheStatisticsOfDevices) {
  with.free(with.allocate(kMiB));
  EXPECT_EQ(cachalot_memory_reserved(with.get(), 0), 0u);
}

TEST_P(PinnedOfBothKinds, IsFreedOnceByItsBegin) {
  auto* const memory = static_cast<char*>(with.allocate(4096));
  for (char* const other : {memory + 1, memory + 512, reinterpret_cast<char*>(512)}) {
    uint64_t size = 77;
    EXPECT_NE(with.refused(cachalot_pinned_free(with.get(), other, &with.error),
                           CACHALOT_ERROR_INVALID_ARGUMENT)
                  .find("no pinned block begins at 0x"),
              std::string::npos);
    with.refused(cachalot_pinned_size(with.get(), other, &size, &with.error),
                 CACHALOT_ERROR_INVALID_ARGUMENT);
    with.refused(with.record(other), CACHALOT_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(size, 77u);
  }
  with.free(memory);
  with.refused(cachalot_pinned_free(with.get(), memory, &with.error),
               CACHALOT_ERROR_INVALID_ARGUMENT);
  uint64_t size = 77;
  with.refused(cachalot_pinned_size(with.get(), memory, &size, &with.error),
               CACHALOT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(with.stats().active_requests.current, 0);
}

TEST_P(PinnedOfBothKinds, TakesNoStreamOnceItIsFreed) {
  void* const memory = with.allocate(4096);
  with.free(memory);
  with.refused(with.record(memory), GetParam().pinned_config == nullptr
                                        ? CACHALOT_ERROR_INVALID_STATE
                                        : CACHALOT_ERROR_INVALID_ARGUMENT);
}

TEST_P(PinnedOfBothKinds, RefusesWhatIsNull) {
  with.refused(with.try_allocate(1, nullptr), CACHALOT_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(with.error.message, "out_memory is NULL");
  void* const memory = with.allocate(1);
  with.refused(cachalot_pinned_size(with.get(), memory, nullptr, &with.error),
               CACHALOT_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(with.error.message, "out_size is NULL");
  with.refused(cachalot_pinned_get_stats(with.get(), nullptr, &with.error),
               CACHALOT_ERROR_INVALID_ARGUMENT);
  with.refused(with.record(nullptr), CACHALOT_ERROR_INVALID_ARGUMENT);
  uint64_t size = 0;
  with.refused(cachalot_pinned_size(with.get(), nullptr, &size, &with.error),
               CACHALOT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(with.stats().active_requests.current, 1);
}

TEST_P(PinnedOfBothKinds, RefusesADeviceThatThereIsNot) {
  void* memory = nullptr;
  for (const int32_t device : {-1, 1}) {
    with.refused(cachalot_pinned_allocate_on_stream(with.get(), 1, device, 0, &memory, &with.error),
                 CACHALOT_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(memory, nullptr);
  }
  memory = with.allocate(1);
  with.refused(with.record(memory, kStream, 1), CACHALOT_ERROR_INVALID_ARGUMENT);
}

TEST_P(PinnedOfBothKinds, FillsAsMuchOfTheStatisticsAsTheCallerKnows) {
  with.allocate(1);
  struct {
    cachalot_pinned_stats known;
    int64_t beyond;
  } larger = {};
  larger.known.struct_size = sizeof larger;
  larger.beyond = 77;
  with.ok(cachalot_pinned_get_stats(with.get(), &larger.known, &with.error));
  EXPECT_EQ(larger.known.active_requests.current, 1);
  EXPECT_EQ(larger.known.struct_size, sizeof larger);
  EXPECT_EQ(larger.beyond, 77);
  cachalot_pinned_stats smaller = {};
  smaller.struct_size = offsetof(cachalot_pinned_stats, allocate_times);
  EXPECT_NE(with.refused(cachalot_pinned_get_stats(with.get(), &smaller, &with.error),
                         CACHALOT_ERROR_INVALID_ARGUMENT)
                .find("out_stats->struct_size is "),
            std::string::npos);
  EXPECT_EQ(smaller.active_requests.current, 0);
}

TEST_P(PinnedOfBothKinds, KeepsItsAllocatorAliveUntilItIsFreed) {
  void* const memory = with.allocate(4096);
  with.refused(cachalot_allocator_destroy(with.get(), &with.error), CACHALOT_ERROR_INVALID_STATE);
  EXPECT_STREQ(with.error.message, "1 block is still live");
  EXPECT_GE(with.size_of(memory), 4096u);
  with.allocate(4096);
  with.refused(cachalot_allocator_destroy(with.get(), &with.error), CACHALOT_ERROR_INVALID_STATE);
  EXPECT_STREQ(with.error.message, "2 blocks are still live");
}  // destroys all

TEST_P(PinnedOfBothKinds, LooksLikeADeviceIfItHasOptionsOfItsOwn) {
  EXPECT_EQ(with.inner() != nullptr, GetParam().pinned_config != nullptr);
  EXPECT_EQ(cachalot_pinned_allocator(nullptr), nullptr);
}

TEST_P(PinnedOfBothKinds, WaitsForItsStream) {
  const bool is_sim = GetParam().driver[0] == 's';
  void* const memory = with.allocate(30 * kMiB);
  if (is_sim) with.queue_work();
  with.ok(with.record(memory));
  with.free(memory);
  EXPECT_EQ(with.stats().active_requests.current, 1);
  void* const other = with.allocate(30 * kMiB);
  EXPECT_EQ(other == memory, !is_sim);  // work on the host driver is done at once
  with.free(other);
  if (!is_sim) return;
  with.finish();
  EXPECT_EQ(with.allocate(30 * kMiB), memory);
}

TEST_P(PinnedOfBothKinds, KeepsNothingWhereAContextIsReleased) {
  if (GetParam().driver[0] != 's') return;
  with.ok(cachalot_sim_log_calls(with.driver(), CACHALOT_SIM_LOG_CALLS, &with.error));
  for (int round = 0; round < 2; round++) {
    void* const memory = with.allocate(30 * kMiB);
    with.queue_work();
    with.ok(with.record(memory));
    with.free(memory);
    with.ok(cachalot_release_context(with.get(), 0, &with.error));
    EXPECT_EQ(with.stats().allocated_bytes.current, 0);
    const std::string calls = calls_of(with);
    EXPECT_EQ(count_of(calls, "event_create"), 1u) << calls;
    EXPECT_EQ(count_of(calls, "event_destroy"), 1u) << calls;
  }
}

// ---- PyTorch's

TEST(PinnedAsInPyTorch, RoundsToPowersOfTwo) {
  Pinned with;
  EXPECT_EQ(with.size_of(with.allocate(3)), 4u);
  EXPECT_EQ(with.size_of(with.allocate(4097)), 8192u);
  with.ok(cachalot_set_pinned_max_round_threshold(with.get(), kKiB, &with.error));
  EXPECT_EQ(with.size_of(with.allocate(4097)), 4097u);
  with.ok(cachalot_set_pinned_max_cached_size(with.get(), 16, &with.error));
  with.free(with.allocate(100 * kKiB));
  EXPECT_EQ(with.stats().allocations.freed, 1);
}

TEST(PinnedAsInPyTorch, PassesOnWhatTheDriverSays) {
  Pinned with;
  void* memory = nullptr;
  with.fail(CACHALOT_SIM_CALL_HOST_ALLOCATE, CACHALOT_DRIVER_OUT_OF_MEMORY);
  with.refused(with.try_allocate(kMiB, &memory), CACHALOT_ERROR_DRIVER);
  EXPECT_EQ(with.error.driver_code, CACHALOT_DRIVER_OUT_OF_MEMORY);
  EXPECT_EQ(memory, nullptr);
  with.refused(with.try_allocate(UINT64_MAX, &memory), CACHALOT_ERROR_INVALID_ARGUMENT);
}

TEST(PinnedAsInPyTorch, IsFreedWhateverTheDriverSays) {
  Pinned with;
  void* const memory = with.allocate(4096);
  with.ok(with.record(memory));
  with.fail(CACHALOT_SIM_CALL_EVENT_RECORD);
  with.free(memory);
  EXPECT_EQ(with.allocate(4096), memory);  // the event is recorded now, and there is no work
}

TEST(PinnedAsInPyTorch, HasPoolsForCaptures) {
  Pinned with;
  const cachalot_pool_id id = {1, 0};
  cachalot_pool_route route = {};
  route.struct_size = sizeof route;
  route.kind = CACHALOT_ROUTE_STREAM;
  route.stream = kStream;
  with.ok(cachalot_pinned_pool_begin(with.get(), 0, id, &route, &with.error));
  with.refused(cachalot_pinned_pool_begin(with.get(), 0, id, &route, &with.error),
               CACHALOT_ERROR_INVALID_STATE);
  with.refused(cachalot_pinned_pool_begin(with.get(), 1, {2, 0}, &route, &with.error),
               CACHALOT_ERROR_INVALID_ARGUMENT);
  void* of_pool = nullptr;
  with.ok(cachalot_pinned_allocate_on_stream(with.get(), 16, 0, kStream, &of_pool, &with.error));
  with.free(of_pool);
  EXPECT_NE(with.allocate(16), of_pool);
  with.ok(cachalot_pinned_pool_end(with.get(), id, &with.error));
  with.refused(cachalot_pinned_pool_end(with.get(), id, &with.error), CACHALOT_ERROR_INVALID_STATE);
  for (int i = 0; i < 2; i++) with.ok(cachalot_pinned_pool_release(with.get(), id, &with.error));
  with.refused(cachalot_pinned_pool_release(with.get(), id, &with.error),
               CACHALOT_ERROR_INVALID_STATE);
  with.empty_cache();
  EXPECT_EQ(with.stats().allocations.current, 1);
  with.refused(cachalot_pinned_pool_release(with.get(), id, &with.error),
               CACHALOT_ERROR_INVALID_ARGUMENT);
}

// ---- A cache like that of a device

class PinnedCacheTest : public testing::Test {
 protected:
  Pinned with{HowToMake{"sim:1GiB", ""}};
  cachalot_allocator* const inner = with.inner();
};

TEST_F(PinnedCacheTest, RoundsToMultiplesOf512) {
  EXPECT_EQ(with.size_of(with.allocate(1)), 512u);
  EXPECT_EQ(with.size_of(with.allocate(4097)), 4608u);
}

TEST_F(PinnedCacheTest, HasALimitOfItsOwn) {
  with.ok(cachalot_set_memory_limit(inner, 0, 20 * kMiB, &with.error));
  void* const memory = with.allocate(12 * kMiB);
  void* more = nullptr;
  const std::string text =
      with.refused(with.try_allocate(30 * kMiB, &more), CACHALOT_ERROR_OUT_OF_HOST_MEMORY);
  EXPECT_EQ(more, nullptr);
  EXPECT_EQ(text.find("out of pinned memory: 31457280 bytes were requested, "), 0u) << text;
  EXPECT_NE(text.find(", the limit is 20971520"), std::string::npos) << text;
  EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  EXPECT_EQ(text.find("GPU"), std::string::npos) << text;
  with.free(memory);
  with.ok(cachalot_set_memory_limit(inner, 0, 200 * kMiB, &with.error));
  with.allocate(30 * kMiB);
}

TEST_F(PinnedCacheTest, SaysThatMemoryIsShortWhereTheDriverDoes) {
  void* memory = nullptr;
  with.fail(CACHALOT_SIM_CALL_HOST_ALLOCATE, CACHALOT_DRIVER_OUT_OF_MEMORY, 10);
  const std::string text =
      with.refused(with.try_allocate(kMiB, &memory), CACHALOT_ERROR_OUT_OF_HOST_MEMORY);
  EXPECT_EQ(text.find("limit"), std::string::npos) << text;
  EXPECT_EQ(text.find('\n'), std::string::npos) << text;
}

TEST_F(PinnedCacheTest, PassesOnOtherErrorsOfTheDriver) {
  void* memory = nullptr;
  with.fail(CACHALOT_SIM_CALL_HOST_ALLOCATE);
  with.refused(with.try_allocate(kMiB, &memory), CACHALOT_ERROR_DRIVER);
  EXPECT_EQ(with.error.driver_code, 999);
  EXPECT_EQ(with.stats().allocations.current, 0);
}

TEST_F(PinnedCacheTest, IsTakenBackAlsoWhereAnEventFails) {
  void* const memory = with.allocate(30 * kMiB);
  with.queue_work();
  with.ok(with.record(memory));
  with.fail(CACHALOT_SIM_CALL_EVENT_RECORD);
  with.refused(cachalot_pinned_free(with.get(), memory, &with.error), CACHALOT_ERROR_DRIVER);
  with.refused(cachalot_pinned_free(with.get(), memory, &with.error),
               CACHALOT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(with.stats().active_requests.current, 1);
  void* const other = with.allocate(30 * kMiB);
  EXPECT_NE(other, memory);
  with.finish();
  EXPECT_EQ(with.allocate(30 * kMiB), memory);
  with.ok(cachalot_check(inner, &with.error));
}

TEST_F(PinnedCacheTest, CanBeTrimmed) {
  with.free(with.allocate(30 * kMiB));
  uint64_t released = 0;
  with.ok(cachalot_trim(inner, 0, 0, 0, &released, &with.error));
  EXPECT_GE(released, 30 * kMiB);
  EXPECT_EQ(with.stats().allocations.current, 0);
  EXPECT_EQ(cachalot_memory_reserved(inner, 0), 0u);
}

TEST_F(PinnedCacheTest, HasTenants) {
  cachalot_tenant_options options = {};
  options.struct_size = sizeof options;
  options.name = "loader";
  options.limit_bytes = 4 * kMiB;
  cachalot_tenant* tenant = nullptr;
  with.ok(cachalot_tenant_create(inner, &options, &tenant, &with.error));
  with.ok(cachalot_tenant_begin(tenant, &with.error));
  void* const memory = with.allocate(3 * kMiB);
  void* more = nullptr;
  with.refused(with.try_allocate(2 * kMiB, &more), CACHALOT_ERROR_OUT_OF_HOST_MEMORY);
  with.ok(cachalot_tenant_end(tenant, &with.error));
  cachalot_tenant_stats stats = {};
  stats.struct_size = sizeof stats;
  with.ok(cachalot_get_tenant_stats(tenant, 0, &stats, &with.error));
  EXPECT_EQ(stats.allocated_bytes.current, static_cast<int64_t>(3 * kMiB));
  EXPECT_EQ(stats.num_ooms, 1);
  with.free(memory);
  with.ok(cachalot_tenant_destroy(tenant, &with.error));
}

TEST_F(PinnedCacheTest, HasLabels) {
  with.ok(cachalot_label_push("staging", &with.error));
  with.allocate(kMiB);
  with.ok(cachalot_label_pop(&with.error));
  size_t rows = 0;
  with.ok(cachalot_label_stats_count(inner, 0, &rows, &with.error));
  std::set<std::string> labels;
  for (size_t i = 0; i < rows; i++) {
    cachalot_label_stats row = {};
    row.struct_size = sizeof row;
    with.ok(cachalot_label_stats_at(inner, 0, i, &row, &with.error));
    if (row.allocated_bytes.current == static_cast<int64_t>(kMiB)) labels.insert(row.label);
  }
  EXPECT_EQ(labels, std::set<std::string>{"staging"});
}

TEST_F(PinnedCacheTest, HasMetrics) {
  with.allocate(3 * kMiB);
  size_t length = 0;
  with.ok(cachalot_metrics_text(inner, nullptr, 0, &length, &with.error));
  std::string text(length + 1, '\0');
  with.ok(cachalot_metrics_text(inner, text.data(), text.size(), &length, &with.error));
  EXPECT_NE(text.find("3145728"), std::string::npos);
}

TEST_F(PinnedCacheTest, GoesWithTheAllocatorThatItBelongsTo) {
  with.refused(cachalot_allocator_destroy(inner, &with.error), CACHALOT_ERROR_INVALID_STATE);
  EXPECT_STREQ(with.error.message,
               "the allocator of pinned memory goes with the one that it belongs to");
  with.refused(cachalot_allocator_destroy_all(inner, &with.error), CACHALOT_ERROR_INVALID_STATE);
  with.allocate(1);
}

TEST_F(PinnedCacheTest, HasNoPinnedMemoryOfItsOwn) {
  void* memory = nullptr;
  with.refused(cachalot_pinned_allocate(inner, 1, &memory, &with.error),
               CACHALOT_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(cachalot_pinned_allocator(inner), nullptr);
}

TEST_F(PinnedCacheTest, HasNoPools) {
  const cachalot_pool_id id = {1, 0};
  const std::string text =
      with.refused(cachalot_pinned_pool_begin(with.get(), 0, id, nullptr, &with.error),
                   CACHALOT_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(text, "pools of pinned memory are PyTorch's: pinned_config leaves them out");
  with.refused(cachalot_pinned_pool_end(with.get(), id, &with.error), CACHALOT_ERROR_NOT_SUPPORTED);
  with.refused(cachalot_pinned_pool_release(with.get(), id, &with.error),
               CACHALOT_ERROR_NOT_SUPPORTED);
}

TEST_F(PinnedCacheTest, WaitsForStreamsOfSeveralDevices) {
  cachalot_sim_options sim = {};
  sim.struct_size = sizeof sim;
  sim.capacity = 1024 * kMiB;
  sim.device_count = 3;
  cachalot_driver* driver = nullptr;
  ASSERT_EQ(cachalot_sim_create(&sim, &driver, &with.error), CACHALOT_OK);
  Pinned three(driver, HowToMake{nullptr, ""});
  void* const memory = three.allocate(30 * kMiB);
  for (const int32_t device : {1, 2}) {
    three.queue_work(kStream, device);
    three.ok(three.record(memory, kStream, device));
  }
  three.free(memory);
  three.finish(kStream, 0);
  three.finish(kStream, 1);
  void* const other = three.allocate(30 * kMiB);
  EXPECT_NE(other, memory);
  three.finish(kStream, 2);
  EXPECT_EQ(three.allocate(30 * kMiB), memory);
}

TEST_F(PinnedCacheTest, EndsWhileWorkIsLeft) {
  void* const memory = with.allocate(30 * kMiB);
  with.queue_work();
  with.ok(with.record(memory));
  with.free(memory);
}

// ---- How it is chosen

TEST(PinnedConfig, OfBackendsThatNeedADeviceIsRefused) {
  cachalot_driver* driver = nullptr;
  ASSERT_EQ(cachalot_driver_open("sim:1GiB", &driver, nullptr), CACHALOT_OK);
  for (const char* config : {"expandable_segments:True", "backend:cudaMallocAsync"}) {
    const cachalot_error error = error_of_creation(driver, config);
    EXPECT_EQ(error.status, CACHALOT_ERROR_NOT_SUPPORTED) << config << ": " << error.message;
  }
  EXPECT_EQ(error_of_creation(driver, "no_option:1").status, CACHALOT_ERROR_INVALID_ARGUMENT);
  cachalot_driver_destroy(driver);
}

TEST(PinnedConfig, ComesFromTheEnvironmentWhereNoneIsGiven) {
  ASSERT_EQ(setenv("CACHALOT_PINNED_CONF", "max_split_size_mb:64", 1), 0);
  {
    Pinned with;
    ASSERT_NE(with.inner(), nullptr);
    char config[64] = "";
    with.ok(cachalot_get_config(with.inner(), config, sizeof config, nullptr, &with.error));
    EXPECT_STREQ(config, "max_split_size_mb:64");
    Pinned given(HowToMake{"sim:1GiB", ""});
    given.ok(cachalot_get_config(given.inner(), config, sizeof config, nullptr, &given.error));
    EXPECT_STREQ(config, "");
  }
  ASSERT_EQ(unsetenv("CACHALOT_PINNED_CONF"), 0);
  Pinned with;
  EXPECT_EQ(with.inner(), nullptr);
}

// ---- Callers' drivers

cachalot_device_ops ops_without_pinned_memory() {
  cachalot_device_ops ops = {};
  ops.struct_size = sizeof ops;
  ops.memory_info = [](void*, int32_t, uint64_t* free, uint64_t* total) {
    *free = *total = 1024 * kMiB;
    return 0;
  };
  ops.allocate = [](void*, int32_t, uint64_t, cachalot_address*) { return 2; };
  ops.free = [](void*, int32_t, cachalot_address) { return 0; };
  return ops;
}

cachalot_driver* custom(const cachalot_device_ops& ops, void* user_data) {
  cachalot_driver* driver = nullptr;
  cachalot_error error = CACHALOT_ERROR_INIT;
  EXPECT_EQ(cachalot_driver_create_custom(&ops, 1, user_data, nullptr, &driver, &error),
            CACHALOT_OK)
      << error.message;
  return driver;
}

TEST(PinnedOfACallersDriver, NeedsItsFunctions) {
  Pinned with(custom(ops_without_pinned_memory(), nullptr));
  void* memory = nullptr;
  with.refused(with.try_allocate(1, &memory), CACHALOT_ERROR_NOT_SUPPORTED);
  EXPECT_STREQ(with.error.message, "the driver 'custom' has no pinned memory");
  cachalot_pinned_stats stats = {};
  stats.struct_size = sizeof stats;
  with.refused(cachalot_pinned_get_stats(with.get(), &stats, &with.error),
               CACHALOT_ERROR_NOT_SUPPORTED);
  with.refused(cachalot_pinned_free(with.get(), &memory, &with.error),
               CACHALOT_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(error_of_creation(with.driver(), "").status, CACHALOT_ERROR_NOT_SUPPORTED);
}

TEST(PinnedOfACallersDriver, NeedsBothFunctions) {
  cachalot_device_ops ops = ops_without_pinned_memory();
  ops.host_free = [](void*, int32_t, cachalot_address, int32_t) { return 0; };
  cachalot_driver* driver = nullptr;
  EXPECT_EQ(cachalot_driver_create_custom(&ops, 1, nullptr, nullptr, &driver, nullptr),
            CACHALOT_ERROR_INVALID_ARGUMENT);
}

struct CallersMemory {
  std::vector<std::string> calls;
  int live = 0;
  bool gives_odd_addresses = false;
};

TEST(PinnedOfACallersDriver, ComesFromItsFunctions) {
  for (const char* pinned_config : {static_cast<const char*>(nullptr), ""}) {
    CallersMemory memory;
    cachalot_device_ops ops = ops_without_pinned_memory();
    ops.host_allocate = [](void* user, int32_t device, uint64_t size, int32_t threads,
                           cachalot_address* out) {
      auto& of = *static_cast<CallersMemory*>(user);
      of.calls.push_back(std::to_string(device) + " " + std::to_string(threads));
      of.live++;
      *out =
          reinterpret_cast<cachalot_address>(std::aligned_alloc(4096, (size + 4095) / 4096 * 4096));
      if (of.gives_odd_addresses) *out += 8;
      return 0;
    };
    ops.host_free = [](void* user, int32_t device, cachalot_address address, int32_t registered) {
      auto& of = *static_cast<CallersMemory*>(user);
      of.calls.push_back(std::to_string(device) + " back " + std::to_string(registered));
      of.live--;
      std::free(reinterpret_cast<void*>(address / 4096 * 4096));
      return 0;
    };
    {
      Pinned with(custom(ops, &memory),
                  HowToMake{nullptr, pinned_config, "pinned_num_register_threads:8"});
      with.free(with.allocate(30 * kMiB));
      with.empty_cache();
      EXPECT_EQ(memory.calls, (std::vector<std::string>{"0 0", "0 back 0"}));
      memory.calls.clear();
      memory.gives_odd_addresses = true;
      void* block = nullptr;
      with.refused(with.try_allocate(30 * kMiB, &block), CACHALOT_ERROR_INVALID_STATE);
      EXPECT_EQ(memory.live, 0);
      memory.gives_odd_addresses = false;
      memory.calls.clear();
      with.ok(cachalot_set_pinned_use_cuda_host_register(with.get(), 1, &with.error));
      with.allocate(kMiB);
      EXPECT_EQ(memory.calls, (std::vector<std::string>{pinned_config ? "0 0" : "0 8"}));
    }
    EXPECT_EQ(memory.live, 0);
  }
}

}  // namespace
