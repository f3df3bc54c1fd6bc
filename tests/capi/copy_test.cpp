// SPDX-License-Identifier: MIT OR Apache-2.0
// cachalot_copy: which of the driver's calls copies [core 23.5], and what is refused.
#include <cstring>

#include "sim_fixture.h"

namespace cachalot_test {
namespace {

constexpr cachalot_stream kStream = 0x10;

// The driver's call for a copy of 1,000 bytes to the first device.
std::string call_of_copy(SimAllocator& with, cachalot_address to, cachalot_address from,
                         int32_t from_device) {
  with.take_calls();
  with.ok(cachalot_copy(with.get(), to, 0, from, from_device, 1000, kStream, with.error()));
  return with.take_calls();
}

TEST(Copies, BetweenDevicesWithoutExpandableSegmentsAreLeftToTheDriver) {
  SimAllocator with(SimSetup{.device_count = 2});
  const cachalot_address here = with.allocate(1000);
  const cachalot_address there = with.allocate(1000, 0, 1);
  EXPECT_EQ(call_of_copy(with, here, there, 1), "copy 1000 10");
}

TEST(Copies, ThatExpandableSegmentsHaveAPartInAreOfPeersUnlessAccessWasGiven) {
  SimAllocator with(SimSetup{.config = "expandable_segments:True", .device_count = 2});
  const cachalot_address here = with.allocate(1000);
  const cachalot_address there = with.allocate(1000, 0, 1);
  EXPECT_EQ(call_of_copy(with, here, there, 1), "copy_peer 0 1 1000 10");
  EXPECT_EQ(call_of_copy(with, here, here, 0), "copy 1000 10") << "within a device";
  with.ok(cachalot_enable_peer_access(with.get(), 1, 0, with.error()));
  EXPECT_EQ(call_of_copy(with, here, there, 1), "copy_peer 0 1 1000 10") << "the other way only";
  with.ok(cachalot_enable_peer_access(with.get(), 0, 1, with.error()));
  EXPECT_EQ(call_of_copy(with, here, there, 1), "copy 1000 10");
}

TEST(Copies, OfNoBytesDoNothing) {
  SimAllocator with;
  with.ok(cachalot_copy(with.get(), 0, 0, 0, 0, 0, 0, with.error()));
  EXPECT_EQ(with.take_calls(), "");
}

TEST(Copies, ThatCannotBeAreRefused) {
  SimAllocator with(SimSetup{.device_count = 2});
  const auto refusal = [&](cachalot_address to, int32_t to_device, cachalot_address from,
                           int32_t from_device, cachalot_stream stream) {
    return with.refused(
        cachalot_copy(with.get(), to, to_device, from, from_device, 1, stream, with.error()),
        CACHALOT_ERROR_INVALID_ARGUMENT);
  };
  EXPECT_EQ(refusal(0, 0, 1, 0, 0), "to is 0");
  EXPECT_EQ(refusal(1, 0, 0, 0, 0), "from is 0");
  EXPECT_NE(refusal(1, 2, 1, 0, 0), "");
  EXPECT_NE(refusal(1, 0, 1, -1, 0), "");
  EXPECT_EQ(refusal(1, 0, 1, 0, CACHALOT_STREAM_ALL), "a copy is queued on one stream");
  EXPECT_EQ(with.take_calls(), "");
}

TEST(Copies, ThatTheDriverRefusesAreItsError) {
  SimAllocator with;
  const cachalot_address block = with.allocate(1000);
  with.fail(CACHALOT_SIM_CALL_COPY, 700);
  with.refused(cachalot_copy(with.get(), block, 0, block, 0, 1, 0, with.error()),
               CACHALOT_ERROR_DRIVER);
  EXPECT_EQ(with.error()->driver_code, 700);
}

TEST(Copies, OverTheHostDriverMoveBytes) {
  cachalot_error error = CACHALOT_ERROR_INIT;
  cachalot_driver* driver = nullptr;
  ASSERT_EQ(cachalot_driver_open("host", &driver, &error), CACHALOT_OK) << error.message;
  cachalot_allocator_options options = {};
  options.struct_size = sizeof options;
  options.driver = driver;
  cachalot_allocator* allocator = nullptr;
  ASSERT_EQ(cachalot_allocator_create(&options, &allocator, &error), CACHALOT_OK) << error.message;
  cachalot_address from = 0;
  cachalot_address to = 0;
  ASSERT_EQ(cachalot_allocate(allocator, 6, 0, 0, &from, &error), CACHALOT_OK);
  ASSERT_EQ(cachalot_allocate(allocator, 6, 0, 0, &to, &error), CACHALOT_OK);
  std::memcpy(reinterpret_cast<void*>(from), "whale", 6);
  EXPECT_EQ(cachalot_copy(allocator, to, 0, from, 0, 6, 0, &error), CACHALOT_OK) << error.message;
  EXPECT_STREQ(reinterpret_cast<const char*>(to), "whale");
  EXPECT_EQ(cachalot_allocator_destroy_all(allocator, &error), CACHALOT_OK);
  cachalot_driver_destroy(driver);
}

}  // namespace
}  // namespace cachalot_test
