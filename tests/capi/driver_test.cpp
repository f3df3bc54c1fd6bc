// SPDX-License-Identifier: MIT OR Apache-2.0
#include "cachalot/driver.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>

#include "cachalot/allocator.h"
#include "cachalot/sim.h"

namespace {

// The status of the last call, and its error record.
struct Outcome {
  cachalot_error error = CACHALOT_ERROR_INIT;
  cachalot_driver* driver = nullptr;

  ~Outcome() { cachalot_driver_destroy(driver); }
};

cachalot_status open(const char* name, Outcome* outcome) {
  return cachalot_driver_open(name, &outcome->driver, &outcome->error);
}

// Sets CACHALOT_DRIVER for one test.
class Environment {
 public:
  explicit Environment(const char* value) {
    const char* before = std::getenv("CACHALOT_DRIVER");
    if (before != nullptr) before_ = before;
    set(value);
  }
  ~Environment() { set(before_.empty() ? nullptr : before_.c_str()); }

 private:
  static void set(const char* value) {
    if (value == nullptr) {
      unsetenv("CACHALOT_DRIVER");
    } else {
      setenv("CACHALOT_DRIVER", value, 1);
    }
  }
  std::string before_;
};

TEST(DriverOpen, KnowsHostAndSimByName) {
  for (const char* name : {"host", "sim"}) {
    Outcome outcome;
    ASSERT_EQ(open(name, &outcome), CACHALOT_OK);
    EXPECT_STREQ(cachalot_driver_name(outcome.driver), name);
    EXPECT_EQ(cachalot_driver_device_count(outcome.driver), 1);
  }
  Outcome outcome;
  EXPECT_EQ(open("sim:1TiB", &outcome), CACHALOT_OK);
}

TEST(DriverOpen, SaysWhyCudaCannotBeOpened) {
  Outcome outcome;
  if (open("cuda", &outcome) == CACHALOT_OK) GTEST_SKIP() << "this machine has a GPU";
  EXPECT_EQ(outcome.error.status, CACHALOT_ERROR_DRIVER_UNAVAILABLE);
  EXPECT_NE(std::string(outcome.error.message).find("CUDA driver"), std::string::npos);
  EXPECT_EQ(outcome.driver, nullptr);
}

TEST(DriverOpen, RefusesWhatIsNoDriver) {
  Outcome outcome;
  EXPECT_EQ(open("gpu", &outcome), CACHALOT_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(outcome.error.message,
               "\"gpu\" is no driver: cuda[:CAPACITY], cuda:cgroup, host[:CAPACITY], "
               "host-shared[:CAPACITY] or sim[:CAPACITY]");
  EXPECT_EQ(open("host:lots", &outcome), CACHALOT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(cachalot_driver_open("host", nullptr, &outcome.error), CACHALOT_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(outcome.error.message, "out_driver is NULL");
}

TEST(DriverOpen, AsksTheEnvironmentWhereNoNameIsGiven) {
  const Environment sim("sim:1GiB");
  for (const char* name : {static_cast<const char*>(nullptr), ""}) {
    Outcome outcome;
    ASSERT_EQ(open(name, &outcome), CACHALOT_OK);
    EXPECT_STREQ(cachalot_driver_name(outcome.driver), "sim");
  }
  const Environment wrong("gpu");
  Outcome outcome;
  EXPECT_EQ(open(nullptr, &outcome), CACHALOT_ERROR_INVALID_ARGUMENT);
}

TEST(DriverOpen, OpensCudaWhereNothingIsSaidAndHostWithoutAGpu) {
  Outcome cuda;
  const char* const expected = open("cuda", &cuda) == CACHALOT_OK ? "cuda" : "host";
  for (const char* value : {static_cast<const char*>(nullptr), ""}) {
    const Environment environment(value);
    Outcome outcome;
    ASSERT_EQ(open(nullptr, &outcome), CACHALOT_OK);
    EXPECT_STREQ(cachalot_driver_name(outcome.driver), expected);
  }
}

TEST(HostDriver, IsMadeWithDefaultsForZeros) {
  Outcome outcome;
  ASSERT_EQ(cachalot_driver_create_host(0, 0, &outcome.driver, &outcome.error), CACHALOT_OK);
  EXPECT_EQ(cachalot_driver_device_count(outcome.driver), 1);
}

TEST(HostDriver, RefusesNumbersOfDevicesThatAreNotPossible) {
  Outcome outcome;
  EXPECT_EQ(cachalot_driver_create_host(0, -1, &outcome.driver, &outcome.error),
            CACHALOT_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(outcome.error.message, "device_count is -1, not 1 to 1024");
  EXPECT_EQ(cachalot_driver_create_host(0, 1025, &outcome.driver, nullptr),
            CACHALOT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(outcome.driver, nullptr);
}

// An allocator over the host driver, with these options.
void expect_usable_memory(const char* config) {
  Outcome outcome;
  ASSERT_EQ(cachalot_driver_create_host(256 << 20, 1, &outcome.driver, nullptr), CACHALOT_OK);
  cachalot_allocator_options options = {};
  options.struct_size = sizeof options;
  options.driver = outcome.driver;
  options.config = config;
  cachalot_allocator* allocator = nullptr;
  ASSERT_EQ(cachalot_allocator_create(&options, &allocator, &outcome.error), CACHALOT_OK);
  for (uint64_t size = 1; size < 100 << 20; size *= 6) {
    cachalot_address address = 0;
    ASSERT_EQ(cachalot_allocate(allocator, size, 0, 0, &address, &outcome.error), CACHALOT_OK)
        << outcome.error.message;
    std::memset(reinterpret_cast<void*>(address), 0x5a, size);
    if (size % 4 == 0) {
      EXPECT_EQ(cachalot_free(allocator, address, nullptr), CACHALOT_OK);
    }
    EXPECT_EQ(cachalot_empty_cache(allocator, nullptr), CACHALOT_OK);
  }
  EXPECT_EQ(cachalot_allocator_destroy_all(allocator, &outcome.error), CACHALOT_OK);
}

TEST(HostDriver, GivesAnAllocatorMemoryThatCanBeWritten) { expect_usable_memory(""); }

TEST(HostDriver, GivesExpandableSegmentsMemoryThatCanBeWritten) {
  expect_usable_memory("expandable_segments:True");
}

TEST(Driver, OutlivesItsCallersReferenceWhileAnAllocatorUsesIt) {
  cachalot_allocator_options options = {};
  options.struct_size = sizeof options;
  options.config = "";
  ASSERT_EQ(cachalot_sim_create(nullptr, &options.driver, nullptr), CACHALOT_OK);
  cachalot_allocator* allocator = nullptr;
  ASSERT_EQ(cachalot_allocator_create(&options, &allocator, nullptr), CACHALOT_OK);
  cachalot_driver_destroy(options.driver);
  cachalot_address address = 0;
  EXPECT_EQ(cachalot_allocate(allocator, 1000, 0, 0, &address, nullptr), CACHALOT_OK);
  EXPECT_EQ(cachalot_allocator_driver(allocator), options.driver);
  EXPECT_EQ(cachalot_allocator_destroy_all(allocator, nullptr), CACHALOT_OK);
}

TEST(Driver, IsNothingForNull) {
  cachalot_driver_destroy(nullptr);
  EXPECT_STREQ(cachalot_driver_name(nullptr), "");
  EXPECT_EQ(cachalot_driver_device_count(nullptr), 0);
}

// ---- Drivers of the caller

int32_t memory_info(void*, int32_t, uint64_t* out_free, uint64_t* out_total) {
  *out_free = *out_total = 1;
  return 0;
}
int32_t allocate(void*, int32_t, uint64_t, cachalot_address*) { return 2; }
int32_t free_nothing(void*, int32_t, cachalot_address) { return 0; }
void count_call(void* user_data) { ++*static_cast<int*>(user_data); }

cachalot_device_ops smallest_ops() {
  cachalot_device_ops ops = {};
  ops.struct_size = sizeof ops;
  ops.memory_info = memory_info;
  ops.allocate = allocate;
  ops.free = free_nothing;
  return ops;
}

// Makes a driver of `ops` and gives it up again; returns its status and counts the calls of
// destroy.
cachalot_status make_custom(const cachalot_device_ops* ops, int32_t device_count, int* destroyed,
                            cachalot_error* error) {
  cachalot_driver* driver = nullptr;
  const cachalot_status status =
      cachalot_driver_create_custom(ops, device_count, destroyed, count_call, &driver, error);
  EXPECT_EQ(*destroyed, status == CACHALOT_OK ? 0 : 1);
  EXPECT_EQ(driver != nullptr, status == CACHALOT_OK);
  if (driver != nullptr) {
    EXPECT_STREQ(cachalot_driver_name(driver), "custom");
    EXPECT_EQ(cachalot_driver_device_count(driver), device_count);
  }
  cachalot_driver_destroy(driver);
  return status;
}

TEST(CustomDriver, NeedsThreeFunctionsOnly) {
  const cachalot_device_ops ops = smallest_ops();
  int destroyed = 0;
  EXPECT_EQ(make_custom(&ops, 3, &destroyed, nullptr), CACHALOT_OK);
  EXPECT_EQ(destroyed, 1);
}

TEST(CustomDriver, WorksWithoutADestroyFunction) {
  const cachalot_device_ops ops = smallest_ops();
  Outcome outcome;
  EXPECT_EQ(cachalot_driver_create_custom(&ops, 1, nullptr, nullptr, &outcome.driver, nullptr),
            CACHALOT_OK);
}

TEST(CustomDriver, DestroysTheUserDataOnceWhenItCannotBeMade) {
  cachalot_error error = CACHALOT_ERROR_INIT;
  const auto refused = [&](const cachalot_device_ops* ops, int32_t device_count) {
    int destroyed = 0;
    EXPECT_EQ(make_custom(ops, device_count, &destroyed, &error), CACHALOT_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(destroyed, 1);
    return std::string(error.message);
  };
  cachalot_device_ops ops = smallest_ops();
  EXPECT_EQ(refused(nullptr, 1), "ops is NULL");
  EXPECT_EQ(refused(&ops, 0), "device_count is 0, not 1 to 1024");
  EXPECT_EQ(refused(&ops, -1), "device_count is -1, not 1 to 1024");
  ops.allocate = nullptr;
  EXPECT_EQ(refused(&ops, 1), "ops->allocate is NULL");
  ops = smallest_ops();
  ops.struct_size = 8;
  EXPECT_EQ(refused(&ops, 1), "ops->struct_size is 8, which is less than 32");
  int destroyed = 0;
  ops = smallest_ops();
  EXPECT_EQ(cachalot_driver_create_custom(&ops, 1, &destroyed, count_call, nullptr, &error),
            CACHALOT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(destroyed, 1);
}

TEST(CustomDriver, TakesGroupsOfFunctionsAsAWhole) {
  cachalot_error error = CACHALOT_ERROR_INIT;
  int destroyed = 0;
  cachalot_device_ops ops = smallest_ops();
  ops.reserve = allocate;
  EXPECT_EQ(make_custom(&ops, 1, &destroyed, &error), CACHALOT_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message,
               "ops->unreserve is NULL and ops->reserve is not: "
               "calls of virtual memory need all or none");
  destroyed = 0;
  ops = smallest_ops();
  ops.event_query = [](void*, int32_t, uint64_t) { return 0; };
  EXPECT_EQ(make_custom(&ops, 1, &destroyed, &error), CACHALOT_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message,
               "ops->event_create is NULL and ops->event_query is not: events need all or none");
  destroyed = 0;
  ops = smallest_ops();
  ops.pool_trim = [](void*, int32_t, uint64_t) { return 0; };
  EXPECT_EQ(make_custom(&ops, 1, &destroyed, &error), CACHALOT_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message,
               "ops->pool_allocate is NULL and ops->pool_trim is not: "
               "calls of stream-ordered memory need all or none");
}

TEST(CustomDriver, DoesNotReadBehindTheStructSizeOfItsCaller) {
  cachalot_device_ops ops = smallest_ops();
  // An older caller: what lies behind its struct is no function.
  std::memset(&ops.reserve, 0xff, sizeof ops - offsetof(cachalot_device_ops, reserve));
  ops.struct_size = offsetof(cachalot_device_ops, reserve);
  int destroyed = 0;
  EXPECT_EQ(make_custom(&ops, 1, &destroyed, nullptr), CACHALOT_OK);
}

// ---- Error records

TEST(ErrorRecord, IsLeftAloneByACallThatWorks) {
  Outcome outcome;
  std::strcpy(outcome.error.message, "before");
  outcome.error.status = 5;
  ASSERT_EQ(open("sim", &outcome), CACHALOT_OK);
  EXPECT_STREQ(outcome.error.message, "before");
  EXPECT_EQ(outcome.error.status, 5);
}

TEST(ErrorRecord, IsWrittenNoFurtherThanItsStructSize) {
  for (size_t size = 0; size <= sizeof(cachalot_error) + 8; size += size < 160 ? 1 : 500) {
    Outcome outcome;
    std::memset(&outcome.error, 0x55, sizeof outcome.error);
    outcome.error.struct_size = size;
    EXPECT_EQ(open("gpu", &outcome), CACHALOT_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(outcome.error.struct_size, size);
    const auto* bytes = reinterpret_cast<const unsigned char*>(&outcome.error);
    for (size_t i = std::max(size, sizeof(size_t)); i < sizeof(cachalot_error); i++) {
      ASSERT_EQ(bytes[i], 0x55) << "byte " << i << " of a record of " << size;
    }
    if (size > offsetof(cachalot_error, message)) {
      EXPECT_LT(std::strlen(outcome.error.message), size - offsetof(cachalot_error, message));
    }
  }
}

TEST(ErrorRecord, EndsALongMessageWithThreeDots) {
  Outcome outcome;
  const std::string name = "sim:" + std::string(5000, 'x');
  EXPECT_EQ(open(name.c_str(), &outcome), CACHALOT_ERROR_INVALID_ARGUMENT);
  const std::string message = outcome.error.message;
  EXPECT_EQ(message.size(), CACHALOT_MESSAGE_CAPACITY - 1u);
  EXPECT_EQ(message.substr(message.size() - 4), "x...");
}

TEST(ErrorRecord, IsNotCutInsideACharacter) {
  for (int shift = 0; shift < 3; shift++) {
    Outcome outcome;
    std::string name(static_cast<size_t>(shift), 'x');
    while (name.size() < 5000) name += "\u20ac";  // three bytes
    EXPECT_EQ(open(name.c_str(), &outcome), CACHALOT_ERROR_INVALID_ARGUMENT);
    const std::string message = outcome.error.message;
    EXPECT_EQ(message.substr(message.size() - 6), "\u20ac...");
  }
}

}  // namespace
