// SPDX-License-Identifier: MIT OR Apache-2.0
// The controls of the simulated driver. What its calls do, core/sim_driver_test.cpp says: the C
// interface shows them through an allocator only.
#include "cachalot/sim.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "cachalot/allocator.h"
#include "cachalot/stats.h"

namespace {

class SimControls : public testing::Test {
 protected:
  SimControls() {
    cachalot_sim_options options = {};
    options.struct_size = sizeof options;
    options.capacity = uint64_t{1} << 30;
    EXPECT_EQ(cachalot_sim_create(&options, &sim, nullptr), CACHALOT_OK);
  }
  ~SimControls() override {
    cachalot_allocator_destroy_all(allocator, nullptr);
    cachalot_driver_destroy(sim);
  }

  void make_allocator(const char* config = "") {
    cachalot_allocator_options options = {};
    options.struct_size = sizeof options;
    options.driver = sim;
    options.config = config;
    ASSERT_EQ(cachalot_allocator_create(&options, &allocator, &error), CACHALOT_OK)
        << error.message;
    ASSERT_EQ(cachalot_sim_log_calls(sim, CACHALOT_SIM_LOG_CALLS, nullptr), CACHALOT_OK);
  }
  cachalot_status allocate(uint64_t size, cachalot_stream stream = 0) {
    return cachalot_allocate(allocator, size, 0, stream, &address, &error);
  }
  std::string calls() {
    size_t length = 0;
    EXPECT_EQ(cachalot_sim_read_calls(sim, nullptr, 0, &length, nullptr), CACHALOT_OK);
    std::vector<char> text(length + 1);
    EXPECT_EQ(cachalot_sim_read_calls(sim, text.data(), text.size(), nullptr, nullptr),
              CACHALOT_OK);
    return text.data();
  }
  cachalot_status fail(uint32_t kinds, int32_t code, uint64_t after = 0) {
    cachalot_sim_failure failure = {};
    failure.struct_size = sizeof failure;
    failure.calls = kinds;
    failure.code = code;
    failure.after = after;
    return cachalot_sim_fail(sim, &failure, &error);
  }

  cachalot_driver* sim = nullptr;
  cachalot_allocator* allocator = nullptr;
  cachalot_address address = 0;
  cachalot_error error = CACHALOT_ERROR_INIT;
};

TEST(SimCapacity, IsFourTebibytesAtMostHoweverTheDriverIsMade) {
  constexpr const char* kText =
      "a device of 1152921504606846976 bytes: at most 4398046511104 (4 TiB) can be simulated";
  cachalot_sim_options options = {};
  options.struct_size = sizeof options;
  options.capacity = uint64_t{1} << 60;
  cachalot_driver* driver = nullptr;
  cachalot_error error = CACHALOT_ERROR_INIT;
  EXPECT_EQ(cachalot_sim_create(&options, &driver, &error), CACHALOT_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, kText);
  EXPECT_EQ(cachalot_driver_open("sim:1048576TiB", &driver, &error),
            CACHALOT_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, kText);
  EXPECT_EQ(driver, nullptr);
}

TEST(SimCapacity, OfTheLargestDeviceCanBeOneBlock) {
  cachalot_driver* driver = nullptr;
  ASSERT_EQ(cachalot_driver_open("sim:4TiB", &driver, nullptr), CACHALOT_OK);
  cachalot_allocator_options options = {};
  options.struct_size = sizeof options;
  options.driver = driver;
  options.config = "";
  cachalot_allocator* allocator = nullptr;
  ASSERT_EQ(cachalot_allocator_create(&options, &allocator, nullptr), CACHALOT_OK);
  cachalot_address address = 0;
  EXPECT_EQ(cachalot_allocate(allocator, uint64_t{1} << 42, 0, 0, &address, nullptr), CACHALOT_OK);
  EXPECT_EQ(cachalot_memory_reserved(allocator, 0), uint64_t{1} << 42);
  EXPECT_EQ(cachalot_allocator_destroy_all(allocator, nullptr), CACHALOT_OK);
  cachalot_driver_destroy(driver);
}

TEST(SimCreate, HasDefaultsForNullAndZeros) {
  cachalot_driver* driver = nullptr;
  ASSERT_EQ(cachalot_sim_create(nullptr, &driver, nullptr), CACHALOT_OK);
  EXPECT_STREQ(cachalot_driver_name(driver), "sim");
  EXPECT_EQ(cachalot_driver_device_count(driver), 1);
  cachalot_driver_destroy(driver);
}

TEST(SimCreate, RefusesOptionsThatAreNotPossible) {
  cachalot_driver* driver = nullptr;
  cachalot_error error = CACHALOT_ERROR_INIT;
  cachalot_sim_options options = {};
  options.struct_size = sizeof options;
  options.device_count = -4;
  EXPECT_EQ(cachalot_sim_create(&options, &driver, &error), CACHALOT_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "device_count is -4, not 1 to 1024");
  options.struct_size = 8;
  EXPECT_EQ(cachalot_sim_create(&options, &driver, &error), CACHALOT_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "options->struct_size is 8, which is less than 24");
  EXPECT_EQ(cachalot_sim_create(nullptr, nullptr, &error), CACHALOT_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "out_driver is NULL");
  EXPECT_EQ(driver, nullptr);
}

TEST(SimCreate, TakesALargerStructOfANewerCaller) {
  struct {
    cachalot_sim_options known;
    uint64_t unknown;
  } options = {};
  options.known.struct_size = sizeof options;
  options.known.device_count = 3;
  options.unknown = 9;
  cachalot_driver* driver = nullptr;
  ASSERT_EQ(cachalot_sim_create(&options.known, &driver, nullptr), CACHALOT_OK);
  EXPECT_EQ(cachalot_driver_device_count(driver), 3);
  cachalot_driver_destroy(driver);
}

// Every control, on a driver and a device.
std::vector<std::function<cachalot_status(cachalot_driver*, int32_t, cachalot_error*)>> controls() {
  using D = cachalot_driver*;
  using E = cachalot_error*;
  return {
      [](D d, int32_t i, E e) { return cachalot_sim_give_addresses(d, i, nullptr, 0, e); },
      [](D d, int32_t i, E e) { return cachalot_sim_queue_work(d, i, 1, e); },
      [](D d, int32_t i, E e) { return cachalot_sim_finish_oldest(d, i, 1, e); },
      [](D d, int32_t i, E e) { return cachalot_sim_finish_stream(d, i, 1, e); },
      [](D d, int32_t i, E e) { return cachalot_sim_finish_device(d, i, e); },
      [](D d, int32_t i, E e) { return cachalot_sim_add_process(d, i, 0, 1, e); },
      [](D d, int32_t i, E e) { return cachalot_sim_set_fabric(d, i, 0, 0, e); },
      [](D d, int32_t i, E e) { return cachalot_sim_begin_capture(d, i, 1, 1, e); },
      [](D d, int32_t i, E e) { return cachalot_sim_add_node(d, i, 1, e); },
      [](D d, int32_t i, E e) { return cachalot_sim_fork_capture(d, i, 1, 2, e); },
      [](D d, int32_t i, E e) { return cachalot_sim_join_capture(d, i, 1, 2, e); },
      [](D d, int32_t i, E e) { return cachalot_sim_end_capture(d, i, 1, e); },
  };
}

TEST_F(SimControls, WorkOnADeviceOfTheDriverOnly) {
  for (const auto& control : controls()) {
    EXPECT_EQ(control(sim, 0, nullptr), CACHALOT_OK);
    EXPECT_EQ(control(sim, 1, &error), CACHALOT_ERROR_INVALID_ARGUMENT);
    EXPECT_STREQ(error.message, "device 1: the driver has 1");
    EXPECT_EQ(control(sim, -1, nullptr), CACHALOT_ERROR_INVALID_ARGUMENT);
  }
}

TEST_F(SimControls, RefuseOtherDriversAndNull) {
  cachalot_driver* host = nullptr;
  ASSERT_EQ(cachalot_driver_open("host", &host, nullptr), CACHALOT_OK);
  auto all = controls();
  all.push_back([](auto* d, int32_t, auto* e) { return cachalot_sim_set_pending_error(d, 1, e); });
  all.push_back([](auto* d, int32_t, auto* e) { return cachalot_sim_set_latency(d, 1, 1, e); });
  all.push_back([](auto* d, int32_t, auto* e) { return cachalot_sim_log_calls(d, 1, e); });
  all.push_back([](auto* d, int32_t, auto* e) { return cachalot_sim_fail(d, nullptr, e); });
  all.push_back(
      [](auto* d, int32_t, auto* e) { return cachalot_sim_read_calls(d, nullptr, 0, nullptr, e); });
  for (const auto& control : all) {
    EXPECT_EQ(control(host, 0, &error), CACHALOT_ERROR_INVALID_ARGUMENT);
    EXPECT_STREQ(error.message, "the driver is host, not sim");
    EXPECT_EQ(control(nullptr, 0, &error), CACHALOT_ERROR_INVALID_ARGUMENT);
    EXPECT_STREQ(error.message, "driver is NULL");
  }
  cachalot_driver_destroy(host);
}

TEST_F(SimControls, RefuseFailuresThatMeanNothing) {
  EXPECT_EQ(fail(0, 2), CACHALOT_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "failure->calls is 0");
  EXPECT_EQ(fail(1, 0), CACHALOT_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "failure->code is 0");
  EXPECT_EQ(fail(0x40000001, 2), CACHALOT_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "failure->calls has the unknown bits 0x40000000");
  EXPECT_EQ(cachalot_sim_fail(sim, nullptr, &error), CACHALOT_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "failure is NULL");
}

TEST_F(SimControls, RefuseWordsKindsAddressesAndBuffersThatThereAreNot) {
  EXPECT_EQ(cachalot_sim_log_calls(sim, 0x20, &error), CACHALOT_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "words has the unknown bits 0x20");
  EXPECT_EQ(cachalot_sim_set_latency(sim, 0x80000000, 1, nullptr), CACHALOT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(cachalot_sim_give_addresses(sim, 0, nullptr, 1, &error),
            CACHALOT_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "addresses is NULL");
  const cachalot_address addresses[] = {512, 0};
  EXPECT_EQ(cachalot_sim_give_addresses(sim, 0, addresses, 2, &error),
            CACHALOT_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "addresses[1] is 0x0: 0 is no address");
  EXPECT_EQ(cachalot_sim_read_calls(sim, nullptr, 1, nullptr, nullptr),
            CACHALOT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(cachalot_sim_begin_capture(sim, 0, 1, 0, &error), CACHALOT_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "capture_id is 0");
}

TEST_F(SimControls, ShowTheCallsOfAnAllocator) {
  make_allocator();
  const cachalot_address addresses[] = {0x7f0000000000};
  ASSERT_EQ(cachalot_sim_give_addresses(sim, 0, addresses, 1, nullptr), CACHALOT_OK);
  ASSERT_EQ(allocate(1000), CACHALOT_OK);
  EXPECT_EQ(address, addresses[0]);
  EXPECT_EQ(cachalot_free(allocator, address, nullptr), CACHALOT_OK);
  EXPECT_EQ(cachalot_empty_cache(allocator, nullptr), CACHALOT_OK);
  EXPECT_EQ(calls(), "malloc 2097152 7f0000000000\nfree 7f0000000000\n");
  EXPECT_EQ(calls(), "");
}

TEST_F(SimControls, DecideWhenARecordedStreamIsDone) {
  make_allocator();
  ASSERT_EQ(allocate(1000), CACHALOT_OK);
  const cachalot_address first = address;
  ASSERT_EQ(cachalot_sim_queue_work(sim, 0, 0xa0, nullptr), CACHALOT_OK);
  ASSERT_EQ(cachalot_record_stream(allocator, first, 0xa0, nullptr), CACHALOT_OK);
  ASSERT_EQ(cachalot_free(allocator, first, nullptr), CACHALOT_OK);
  ASSERT_EQ(allocate(1000), CACHALOT_OK);
  EXPECT_NE(address, first) << "work on the other stream is left";
  ASSERT_EQ(cachalot_sim_finish_stream(sim, 0, 0xa0, nullptr), CACHALOT_OK);
  ASSERT_EQ(allocate(1000), CACHALOT_OK);
  EXPECT_EQ(address, first);
}

TEST_F(SimControls, LetTheNthDriverAllocationFail) {
  make_allocator();
  ASSERT_EQ(fail(CACHALOT_SIM_CALL_ALLOCATE, 700, 1), CACHALOT_OK);
  ASSERT_EQ(allocate(1000), CACHALOT_OK);
  EXPECT_EQ(allocate(50'000'000), CACHALOT_ERROR_DRIVER);
  EXPECT_EQ(error.driver_code, 700);
  EXPECT_EQ(allocate(50'000'000), CACHALOT_OK);
}

TEST_F(SimControls, LeaveAnErrorPendingForTheNextDriverAllocation) {
  make_allocator();
  ASSERT_EQ(cachalot_sim_set_pending_error(sim, 700, nullptr), CACHALOT_OK);
  EXPECT_EQ(allocate(1000), CACHALOT_ERROR_DRIVER);
  EXPECT_EQ(error.driver_code, 700);
  EXPECT_EQ(allocate(1000), CACHALOT_OK);
}

TEST_F(SimControls, LetPagesOfExpandableSegmentsFail) {
  make_allocator("expandable_segments:True");
  ASSERT_EQ(fail(CACHALOT_SIM_CALL_CREATE, CACHALOT_DRIVER_OUT_OF_MEMORY), CACHALOT_OK);
  ASSERT_EQ(allocate(1000), CACHALOT_OK) << error.message;
  EXPECT_NE(calls().find("create 2097152 oom\n"), std::string::npos);
}

}  // namespace
