// SPDX-License-Identifier: MIT OR Apache-2.0
// Recorders that start and stop while threads work: no event is lost or doubled.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "../test_seed.h"
#include "sim_fixture.h"

namespace cachalot_test {
namespace {

using cachalot::Random;

constexpr int kThreads = 4;
constexpr int kDevices = 2;
constexpr int kRecordings = 12;

int32_t append(void* user_data, const void* data, size_t size) {
  static_cast<std::string*>(user_data)->append(static_cast<const char*>(data), size);
  return 0;
}

struct Reading {
  const std::string& text;
  size_t at = 0;
};

int64_t read(void* user_data, void* buffer, size_t capacity) {
  Reading& reading = *static_cast<Reading*>(user_data);
  const size_t count = std::min(capacity, reading.text.size() - reading.at);
  std::memcpy(buffer, reading.text.data() + reading.at, count);
  reading.at += count;
  return static_cast<int64_t>(count);
}

// A replay refuses what cannot have happened: a block that is handed out twice, a free of one that is not live.
void expect_it_can_have_happened(const std::string& text) {
  cachalot_error error = CACHALOT_ERROR_INIT;
  Reading reading{text};
  cachalot_trace* trace = nullptr;
  ASSERT_EQ(cachalot_trace_read(read, &reading, &trace, &error), CACHALOT_OK) << error.message;
  cachalot_replay* replay = nullptr;
  EXPECT_EQ(cachalot_replay_run(trace, nullptr, &replay, &error), CACHALOT_OK) << error.message;
  cachalot_replay_destroy(replay);
  cachalot_trace_destroy(trace);
}

class BusyAllocator {
 public:
  BusyAllocator() {
    cachalot_sim_options sim = {};
    sim.struct_size = sizeof sim;
    sim.capacity = 4 * GiB;
    sim.device_count = kDevices;
    EXPECT_EQ(cachalot_sim_create(&sim, &driver_, nullptr), CACHALOT_OK);
    cachalot_allocator_options options = {};
    options.struct_size = sizeof options;
    options.driver = driver_;
    options.config = "";
    EXPECT_EQ(cachalot_allocator_create(&options, &allocator_, nullptr), CACHALOT_OK);
    for (int i = 0; i < kThreads; i++) threads_.emplace_back([this, i] { work(i); });
  }
  ~BusyAllocator() {
    EXPECT_EQ(cachalot_allocator_destroy(allocator_, nullptr), CACHALOT_OK);
    cachalot_driver_destroy(driver_);
  }
  BusyAllocator(const BusyAllocator&) = delete;
  BusyAllocator& operator=(const BusyAllocator&) = delete;

  operator cachalot_allocator*() const { return allocator_; }
  void end_work() {
    is_over_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  // Frees by other streams' users wait, also while a recorder starts.
  void work(int number) {
    Random random(seed_ + static_cast<uint64_t>(number));
    const int32_t device = number % kDevices;
    std::vector<cachalot_address> blocks(20);
    while (!is_over_) {
      cachalot_address& block = blocks[random.below(blocks.size())];
      if (block == 0) {
        EXPECT_EQ(cachalot_allocate(allocator_, 1 + random.below(3 * MiB), device, random.below(3),
                                    &block, nullptr),
                  CACHALOT_OK);
        continue;
      }
      if (random.below(4) == 0) {
        const cachalot_stream user = 10 + random.below(3);
        EXPECT_EQ(cachalot_sim_queue_work(driver_, device, user, nullptr), CACHALOT_OK);
        EXPECT_EQ(cachalot_record_stream(allocator_, block, user, nullptr), CACHALOT_OK);
      }
      if (random.below(8) == 0) finish(device);
      EXPECT_EQ(cachalot_free(allocator_, block, nullptr), CACHALOT_OK);
      block = 0;
    }
    // 0 is no block, and its free no call.
    for (const cachalot_address block : blocks)
      EXPECT_EQ(cachalot_free(allocator_, block, nullptr), CACHALOT_OK);
    finish(device);
  }

  void finish(int32_t device) const {
    EXPECT_EQ(cachalot_sim_finish_device(driver_, device, nullptr), CACHALOT_OK);
  }

  const uint64_t seed_ = cachalot::test_seed();
  cachalot_driver* driver_ = nullptr;
  cachalot_allocator* allocator_ = nullptr;
  std::atomic<bool> is_over_{false};
  std::vector<std::thread> threads_;
};

TEST(RecorderThreads, StartsAndStopsWhileOtherThreadsWork) {
  BusyAllocator allocator;
  for (int i = 0; i < kRecordings; i++) {
    cachalot_error error = CACHALOT_ERROR_INIT;
    std::string text;
    cachalot_recorder_options options = {};
    options.struct_size = sizeof options;
    options.write = append;
    options.write_user_data = &text;
    uint64_t id = 0;
    ASSERT_EQ(cachalot_recorder_start(allocator, &options, &id, &error), CACHALOT_OK)
        << error.message;
    cachalot_recorder_stats stats = {};
    stats.struct_size = sizeof stats;
    while (stats.events < 500)
      ASSERT_EQ(cachalot_recorder_get_stats(allocator, id, &stats, &error), CACHALOT_OK);
    EXPECT_EQ(cachalot_recorder_flush(allocator, id, &error), CACHALOT_OK) << error.message;
    ASSERT_EQ(cachalot_recorder_stop(allocator, id, &error), CACHALOT_OK) << error.message;
    expect_it_can_have_happened(text);
  }
  allocator.end_work();
}

}  // namespace
}  // namespace cachalot_test
