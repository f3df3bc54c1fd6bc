// SPDX-License-Identifier: MIT OR Apache-2.0
// Faults in what stands behind the C interface are found.
#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "device/sim_driver.h"
#include "src/custom_driver.h"
#include "src/handles.h"

namespace cachalot::capi {
namespace {

int32_t no_memory_info(void*, int32_t, uint64_t*, uint64_t*) { return kDriverOutOfMemory; }
int32_t no_memory(void*, int32_t, uint64_t, cachalot_address*) { return kDriverOutOfMemory; }
int32_t no_free(void*, int32_t, cachalot_address) { return kSuccess; }

TEST(CapiDeathTest, FindsADeviceThatACustomDriverHasNot) {
  cachalot_device_ops ops{};
  ops.struct_size = sizeof ops;
  ops.memory_info = no_memory_info;
  ops.allocate = no_memory;
  ops.free = no_free;
  CustomDriver driver(ops, 1, UserData(nullptr, nullptr));
  Address address = 0;
  EXPECT_EQ(driver.allocate(0, 512, &address), kDriverOutOfMemory);
  EXPECT_DEATH(driver.allocate(1, 512, &address), "device < device_count_");
}

TEST(CapiDeathTest, FindsAHandleWithoutADriver) {
  EXPECT_DEATH(new_driver(nullptr), "assertion failed: core");
}

TEST(CapiDeathTest, FindsADriverThatGoesWhileSomebodyHoldsIt) {
  DriverReference driver = new_driver(std::make_shared<SimDriver>());
  EXPECT_DEATH(delete driver.get(), "references.load.. == 0");
}

TEST(CapiDeathTest, FindsAReportOfNoException) {
  cachalot_error error = CACHALOT_ERROR_INIT;
  EXPECT_DEATH(report_current_exception(&error), "std::current_exception");
}

}  // namespace
}  // namespace cachalot::capi
