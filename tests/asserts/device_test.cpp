// SPDX-License-Identifier: MIT OR Apache-2.0
// Faults in the use of core/device are found.
#include <gtest/gtest.h>

#include "device/address_space.h"
#include "device/host_driver.h"
#include "device/host_memory.h"
#include "device/memory_budget.h"
#include "device/sim_captures.h"
#include "device/sim_driver.h"
#include "device/sim_failures.h"
#include "device/sim_memory.h"

namespace cachalot {
namespace {

TEST(DeviceDeathTest, FindsADeviceThatThereIsNot) {
  uint64_t free_bytes = 0;
  uint64_t total_bytes = 0;
  SimDriver sim;
  EXPECT_DEATH(sim.memory_info(1, &free_bytes, &total_bytes), "device < device_count");
  EXPECT_DEATH(sim.memory_info(-1, &free_bytes, &total_bytes), "device >= 0");
  HostDriver host;
  EXPECT_DEATH(host.memory_info(1, &free_bytes, &total_bytes), "device < device_count");
}

TEST(DeviceDeathTest, FindsAnAddressSpaceWithoutAddresses) {
  EXPECT_DEATH(AddressSpace(MiB, MiB), "begin < end");
}

TEST(DeviceDeathTest, FindsACaptureWithoutAnId) {
  SimCaptures captures;
  EXPECT_DEATH(captures.begin(7, 0), "capture_id > 0");
}

TEST(DeviceDeathTest, FindsAHandleThatIsMadeTwice) {
  SimMemory memory(GiB, AddressSpace(GiB, 2 * GiB));
  ASSERT_EQ(memory.create(2 * MiB, 1), kSuccess);
  EXPECT_DEATH(memory.create(2 * MiB, 1), "!has_handle");
  EXPECT_DEATH(memory.import(1), "!has_handle");
}

TEST(DeviceDeathTest, FindsAFailureThatNeverComes) {
  SimFailures failures;
  EXPECT_DEATH(failures.order({.calls = 1, .count = 0}), "failure.count > 0");
  EXPECT_DEATH(failures.order({.calls = 1, .code = kSuccess}), "failure.code != kSuccess");
}

TEST(DeviceDeathTest, FindsHostMemoryOfNoBytes) {
  HostMemory memory(GiB);
  Address address = 0;
  EXPECT_DEATH(memory.allocate(0, &address), "size > 0");
}

TEST(DeviceDeathTest, FindsATicketThatWasNotGiven) {
  MemoryBudget budget(GiB);
  const auto ticket = budget.take(MiB);
  ASSERT_TRUE(ticket);
  EXPECT_DEATH(budget.keep(*ticket + 1, MemoryBudget::Kind::kAddress, 4096), "!row.empty");
  budget.keep(*ticket, MemoryBudget::Kind::kAddress, 4096);
  const auto second = budget.take(MiB);
  ASSERT_TRUE(second);
  EXPECT_DEATH(budget.keep(*second, MemoryBudget::Kind::kAddress, 4096), "is_new");
}

TEST(DeviceDeathTest, FindsAQuestionForABudgetWithoutALimit) {
  MemoryBudget budget(0);
  EXPECT_DEATH(budget.left(), "has_limit");
}

}  // namespace
}  // namespace cachalot
