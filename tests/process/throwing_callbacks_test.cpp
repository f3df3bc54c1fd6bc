// SPDX-License-Identifier: MIT OR Apache-2.0
// Callbacks must not throw. One written in C++ that does ends no process and leaves nothing
// half-way: what it throws ends at the border as a status, or, of one that only listens, nowhere.
#include <gtest/gtest.h>

#include <cstring>
#include <stdexcept>

#include "tour.h"

namespace {

[[noreturn]] void complain() { throw std::runtime_error("a complaint"); }

class ThrowingCallback : public testing::Test {
 protected:
  void make(cachalot_allocator_options options) {
    options.struct_size = sizeof options;
    if (options.config == nullptr) options.config = "";
    if (options.driver == nullptr) {
      ASSERT_EQ(cachalot_driver_open("sim:64MiB", &driver_, nullptr), CACHALOT_OK);
      options.driver = driver_;
    }
    ASSERT_EQ(cachalot_allocator_create(&options, &allocator_, &error_), CACHALOT_OK)
        << error_.message;
  }

  void TearDown() override {
    EXPECT_EQ(cachalot_check(allocator_, &error_), CACHALOT_OK) << error_.message;
    EXPECT_EQ(cachalot_allocator_destroy_all(allocator_, nullptr), CACHALOT_OK);
    cachalot_driver_destroy(driver_);
  }

  cachalot_status allocate(uint64_t size) {
    return cachalot_allocate(allocator_, size, 0, 0, &address_, &error_);
  }

  void expect_complaint(cachalot_status status) {
    EXPECT_EQ(status, CACHALOT_ERROR_INTERNAL);
    EXPECT_STREQ(error_.message, "a complaint");
  }

  cachalot_driver* driver_ = nullptr;
  cachalot_allocator* allocator_ = nullptr;
  cachalot_address address_ = 0;
  cachalot_error error_ = CACHALOT_ERROR_INIT;
};

TEST_F(ThrowingCallback, OfADriverIsAStatus) {
  static bool throws;
  throws = false;
  auto ops = sized<cachalot_device_ops>();
  ops.memory_info = [](void*, int32_t, uint64_t* free_bytes, uint64_t* total) {
    *free_bytes = *total = uint64_t{1} << 30;
    return 0;
  };
  ops.allocate = [](void*, int32_t, uint64_t, cachalot_address* out) -> int32_t {
    if (throws) complain();
    *out = 0x10000000;
    return 0;
  };
  ops.free = [](void*, int32_t, cachalot_address) { return 0; };
  ASSERT_EQ(cachalot_driver_create_custom(&ops, 1, nullptr, nullptr, &driver_, &error_),
            CACHALOT_OK)
      << error_.message;
  cachalot_allocator_options options{};
  options.driver = driver_;
  make(options);
  throws = true;
  expect_complaint(allocate(512));
  throws = false;
  EXPECT_EQ(allocate(512), CACHALOT_OK);
}

TEST_F(ThrowingCallback, ThatGivesContextsIsAStatus) {
  static bool throws;
  throws = true;
  cachalot_allocator_options options{};
  options.context_capture = [](void*) -> uint64_t {
    if (throws) complain();
    return 7;
  };
  make(options);
  auto history = sized<cachalot_history_options>();
  history.enabled = 1;
  history.context = CACHALOT_CONTEXT_LEVEL_ALL;
  history.max_entries = 10;
  ASSERT_EQ(cachalot_record_history(allocator_, &history, nullptr), CACHALOT_OK);
  expect_complaint(allocate(512));
  throws = false;
  EXPECT_EQ(allocate(512), CACHALOT_OK);
}

TEST_F(ThrowingCallback, ThatShallFreeMemoryIsAStatus) {
  make({});
  uint64_t id = 0;
  ASSERT_EQ(cachalot_register_free_memory_callback(
                allocator_, [](void*, int32_t, size_t) -> int32_t { complain(); }, nullptr, nullptr,
                &id, nullptr),
            CACHALOT_OK);
  expect_complaint(allocate(512));
  ASSERT_EQ(cachalot_detach(allocator_, id, nullptr), CACHALOT_OK);
  EXPECT_EQ(allocate(512), CACHALOT_OK);
}

TEST_F(ThrowingCallback, ThatObservesOutOfMemoryIsAStatus) {
  make({});
  uint64_t id = 0;
  ASSERT_EQ(cachalot_observe_out_of_memory(
                allocator_, [](void*, const cachalot_out_of_memory*) { complain(); }, nullptr,
                nullptr, &id, nullptr),
            CACHALOT_OK);
  expect_complaint(allocate(uint64_t{1} << 40));
  EXPECT_EQ(allocate(512), CACHALOT_OK);
}

// Called in the midst of changes.
TEST_F(ThrowingCallback, ThatObservesTheTraceIsPassedOver) {
  make({});
  uint64_t id = 0;
  ASSERT_EQ(cachalot_observe_trace(
                allocator_, [](void*, const cachalot_trace_entry*) { complain(); }, nullptr,
                nullptr, &id, nullptr),
            CACHALOT_OK);
  EXPECT_EQ(allocate(512), CACHALOT_OK);
  EXPECT_EQ(cachalot_free(allocator_, address_, nullptr), CACHALOT_OK);
  EXPECT_EQ(cachalot_empty_cache(allocator_, nullptr), CACHALOT_OK);
}

TEST_F(ThrowingCallback, ThatGetsRemarksIsPassedOver) {
  cachalot_allocator_options options{};
  options.log = [](void*, int32_t, const char*) { complain(); };
  options.config = "pinned_max_round_threshold_mb:1,pinned_max_cached_size_mb:2";
  make(options);
  EXPECT_EQ(
      cachalot_configure(allocator_, "expandable_segments:True,expandable_segments:True", nullptr),
      CACHALOT_OK);
  EXPECT_EQ(allocate(512), CACHALOT_OK);
}

}  // namespace
