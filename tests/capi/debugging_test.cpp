// SPDX-License-Identifier: MIT OR Apache-2.0
// Safe debugging through the C interface, in memory of the host.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "cachalot/cachalot.h"

namespace cachalot_test {
namespace {

using Lines = std::vector<std::pair<int32_t, std::string>>;

class Debugging : public testing::Test {
 protected:
  Debugging() { unsetenv("CACHALOT_DEBUG"); }
  ~Debugging() override {
    unsetenv("CACHALOT_DEBUG");
    if (!allocator) return;
    EXPECT_EQ(cachalot_allocator_destroy_all(allocator, &error), CACHALOT_OK) << error.message;
  }

  cachalot_status make(uint32_t debug, cachalot_log_fn log = nullptr,
                       const char* driver_name = "host:64MiB") {
    cachalot_allocator_options options = {};
    options.struct_size = sizeof options;
    options.config = "";
    options.no_caching = -1;
    options.debug = debug;
    options.log = log;
    options.log_user_data = &lines;
    EXPECT_EQ(cachalot_driver_open(driver_name, &options.driver, &error), CACHALOT_OK);
    const cachalot_status status = cachalot_allocator_create(&options, &allocator, &error);
    cachalot_driver_destroy(options.driver);
    return status;
  }

  static void keep(void* user_data, int32_t level, const char* message) {
    static_cast<Lines*>(user_data)->emplace_back(level, message);
  }

  // A block of 1000 bytes that is written up to and with one byte more.
  cachalot_address overrun() {
    cachalot_address address = 0;
    EXPECT_EQ(cachalot_allocate(allocator, 1000, 0, 0, &address, &error), CACHALOT_OK);
    std::memset(reinterpret_cast<void*>(address), 0x22, 1001);
    return address;
  }

  void free(cachalot_address address) {
    EXPECT_EQ(cachalot_free(allocator, address, &error), CACHALOT_OK) << error.message;
  }

  cachalot_allocator* allocator = nullptr;
  cachalot_error error = CACHALOT_ERROR_INIT;
  Lines lines;
};

TEST_F(Debugging, IsOffByDefault) {
  ASSERT_EQ(make(0, keep), CACHALOT_OK);
  const cachalot_address address = overrun();
  free(address);
  EXPECT_EQ(*reinterpret_cast<uint8_t*>(address), 0x22);
  EXPECT_EQ(lines.size(), 0u);
}

TEST_F(Debugging, ReportsDamageToTheLogWithALevelOfItsOwn) {
  ASSERT_EQ(make(CACHALOT_DEBUG_RED_ZONES, keep), CACHALOT_OK);
  free(overrun());
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].first, CACHALOT_LOG_DAMAGE);
  EXPECT_TRUE(lines[0].second.ends_with(
      " of 1000 bytes (device 0, stream 0x0) was written beyond its end: byte 1 after it is 0x22"))
      << lines[0].second;
}

TEST_F(Debugging, PrintsDamageWhereThereIsNoLog) {
  ASSERT_EQ(make(CACHALOT_DEBUG_RED_ZONES), CACHALOT_OK);
  testing::internal::CaptureStderr();
  free(overrun());
  const std::string printed = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(printed.starts_with("cachalot: the block at 0x") && printed.ends_with("0x22\n"))
      << printed;
}

TEST_F(Debugging, ShowsDamageOfLiveBlocksToTheAuditor) {
  ASSERT_EQ(make(CACHALOT_DEBUG_RED_ZONES, keep), CACHALOT_OK);
  EXPECT_EQ(cachalot_check(allocator, &error), CACHALOT_OK);
  const cachalot_address address = overrun();
  EXPECT_EQ(cachalot_check(allocator, &error), CACHALOT_ERROR_INVALID_STATE);
  EXPECT_TRUE(std::string(error.message).starts_with("the block at 0x")) << error.message;
  free(address);
  EXPECT_EQ(cachalot_check(allocator, &error), CACHALOT_OK);
}

TEST_F(Debugging, PoisonsFreedBlocks) {
  ASSERT_EQ(make(CACHALOT_DEBUG_POISON), CACHALOT_OK);
  const cachalot_address address = overrun();
  free(address);
  for (int i = 0; i < 1024; i++) ASSERT_EQ(reinterpret_cast<uint8_t*>(address)[i], 0xFF) << i;
}

TEST_F(Debugging, ComesFromTheEnvironmentWhereTheFieldIsZero) {
  setenv("CACHALOT_DEBUG", "poison,redzones", 1);
  ASSERT_EQ(make(0, keep), CACHALOT_OK);
  const cachalot_address address = overrun();
  free(address);
  EXPECT_EQ(*reinterpret_cast<uint8_t*>(address), 0xFF);
  EXPECT_EQ(lines.size(), 1u);
}

TEST_F(Debugging, OfTheFieldGoesBeforeTheEnvironment) {
  setenv("CACHALOT_DEBUG", "no such word", 1);
  ASSERT_EQ(make(CACHALOT_DEBUG_POISON, keep), CACHALOT_OK);
  free(overrun());
  EXPECT_EQ(lines.size(), 0u);
}

TEST_F(Debugging, RefusesWordsAndBitsThatItDoesNotKnow) {
  EXPECT_EQ(make(0x8), CACHALOT_ERROR_INVALID_ARGUMENT);
  for (const char* value : {"poison,red", "all", "nvtx, poison", ","}) {
    setenv("CACHALOT_DEBUG", value, 1);
    EXPECT_EQ(make(0), CACHALOT_ERROR_INVALID_ARGUMENT) << value;
    EXPECT_EQ(std::string(error.message),
              std::string("the environment variable CACHALOT_DEBUG is \"") + value +
                  "\": expected a list of nvtx, poison and redzones");
  }
  EXPECT_EQ(allocator, nullptr);
}

TEST_F(Debugging, IsRefusedWhereTheDriversMemoryCannotBeTouched) {
  EXPECT_EQ(make(CACHALOT_DEBUG_POISON, nullptr, "sim"), CACHALOT_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(make(CACHALOT_DEBUG_RED_ZONES, nullptr, "sim"), CACHALOT_ERROR_NOT_SUPPORTED);
}

TEST_F(Debugging, AnnouncesMemoryOnlyWhereTheBuildCan) {
#ifdef CACHALOT_HAS_NVTX
  EXPECT_EQ(make(CACHALOT_DEBUG_NVTX, nullptr, "sim"), CACHALOT_OK) << error.message;
#else
  EXPECT_EQ(make(CACHALOT_DEBUG_NVTX, nullptr, "sim"), CACHALOT_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(std::string(error.message),
            "this build has no NVTX: its headers were not found (CACHALOT_NVTX_INCLUDE)");
#endif
}

TEST_F(Debugging, IsUnknownToAProgramOfTheFirstVersion) {
  cachalot_allocator_options options = {};
  options.struct_size = offsetof(cachalot_allocator_options, debug);
  options.debug = 0x8;  // behind what such a program knows
  options.config = "";
  EXPECT_EQ(cachalot_driver_open("sim", &options.driver, &error), CACHALOT_OK);
  EXPECT_EQ(cachalot_allocator_create(&options, &allocator, &error), CACHALOT_OK) << error.message;
  cachalot_driver_destroy(options.driver);
}

}  // namespace
}  // namespace cachalot_test
