// SPDX-License-Identifier: MIT OR Apache-2.0
#include "device/host_driver.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>

#include "base/error.h"

namespace cachalot {
namespace {

constexpr uint64_t kPage = 2 * MiB;

char* bytes(Address address) { return reinterpret_cast<char*>(address); }

class Host : public testing::Test {
 protected:
  uint64_t used() {
    uint64_t free = 0;
    uint64_t total = 0;
    EXPECT_EQ(driver.memory_info(0, &free, &total), kSuccess);
    return total - free;
  }
  uint64_t make_page() {
    uint64_t handle = 0;
    EXPECT_EQ(driver.create(0, kPage, HandleType::kNone, false, &handle), kSuccess);
    return handle;
  }

  HostDriver driver{HostOptions{64 * MiB, 1}};
  Address address = 0;
};

TEST_F(Host, HandsOutMemoryThatCanBeReadAndWritten) {
  ASSERT_EQ(driver.allocate(0, 3 * MiB, &address), kSuccess);
  EXPECT_EQ(address % 512, 0u);
  EXPECT_EQ(bytes(address)[3 * MiB - 1], 0);
  std::memset(bytes(address), 0x5a, 3 * MiB);
  EXPECT_EQ(bytes(address)[12345], 0x5a);
  EXPECT_EQ(driver.free(0, address), kSuccess);
  EXPECT_EQ(used(), 0u);
}

TEST_F(Host, FillsAndReadsMemoryForTheAllocator) {
  ASSERT_TRUE(driver.can_touch_memory());
  ASSERT_EQ(driver.allocate(0, 4096, &address), kSuccess);
  EXPECT_EQ(driver.fill(0, address + 100, 200, 0xFB, 0x10), kSuccess);
  unsigned char seen[4] = {};
  EXPECT_EQ(driver.read(0, address + 298, sizeof seen, seen, 0x10), kSuccess);
  EXPECT_EQ(seen[0], 0xFB);
  EXPECT_EQ(seen[1], 0xFB);
  EXPECT_EQ(seen[2], 0);
  EXPECT_EQ(bytes(address)[99], 0);
}

TEST_F(Host, RefusesWhatExceedsItsCapacity) {
  ASSERT_EQ(driver.allocate(0, 64 * MiB, &address), kSuccess);
  Address more = 77;
  EXPECT_EQ(driver.allocate(0, 1, &more), kDriverOutOfMemory);
  EXPECT_EQ(driver.allocate(0, UINT64_MAX, &more), kDriverOutOfMemory);
  EXPECT_EQ(more, 77u);
  uint64_t handle = 0;
  EXPECT_EQ(driver.create(0, kPage, HandleType::kNone, false, &handle), kDriverOutOfMemory);
}

TEST_F(Host, RefusesToFreeWhatIsNotAllocated) {
  EXPECT_EQ(driver.free(0, 0x1000), kInvalidValue);
  EXPECT_EQ(driver.free(0, 0), kSuccess);
  ASSERT_EQ(driver.allocate(0, 1, &address), kSuccess);
  EXPECT_EQ(driver.free(0, address), kSuccess);
  EXPECT_EQ(driver.free(0, address), kInvalidValue);
}

TEST_F(Host, ReportsAsOutOfMemoryWhatTheSystemRefuses) {
  HostDriver huge(HostOptions{UINT64_MAX, 1});
  EXPECT_EQ(huge.allocate(0, uint64_t{1} << 60, &address), kDriverOutOfMemory);
  EXPECT_EQ(huge.reserve(0, uint64_t{1} << 60, &address), kDriverOutOfMemory);
  EXPECT_EQ(huge.reserve(0, UINT64_MAX - kPage + 1, &address), kDriverOutOfMemory);
}

TEST_F(Host, MapsPagesIntoAReservationWhereTheyCanBeReadAndWritten) {
  ASSERT_EQ(driver.reserve(0, 40 * kPage, &address), kSuccess) << "more than the capacity";
  EXPECT_EQ(address % kPage, 0u);
  EXPECT_EQ(used(), 0u);
  const uint64_t first = make_page();
  const uint64_t second = make_page();
  EXPECT_EQ(driver.map(0, address, kPage, first), kSuccess);
  EXPECT_EQ(driver.map(0, address + kPage, kPage, second), kSuccess);
  EXPECT_EQ(driver.set_access(0, address, 2 * kPage, 0), kSuccess);
  std::memset(bytes(address), 1, 2 * kPage);
  EXPECT_EQ(used(), 2 * kPage);

  EXPECT_EQ(driver.unmap(0, address, kPage), kSuccess);
  EXPECT_EQ(driver.release(0, first), kSuccess);
  EXPECT_EQ(bytes(address)[kPage], 1) << "the other page is as it was";
  EXPECT_EQ(used(), kPage);

  const uint64_t third = make_page();
  EXPECT_EQ(driver.map(0, address, kPage, third), kSuccess);
  EXPECT_EQ(driver.set_access(0, address, kPage, 0), kSuccess);
  EXPECT_EQ(bytes(address)[0], 0) << "a new page";
}

TEST_F(Host, KeepsAReleasedPageUntilItIsUnmapped) {
  ASSERT_EQ(driver.reserve(0, kPage, &address), kSuccess);
  const uint64_t handle = make_page();
  EXPECT_EQ(driver.map(0, address, kPage, handle), kSuccess);
  EXPECT_EQ(driver.release(0, handle), kSuccess);
  EXPECT_EQ(used(), kPage);
  EXPECT_EQ(driver.release(0, handle), kInvalidValue);
  EXPECT_EQ(driver.unmap(0, address, kPage), kSuccess);
  EXPECT_EQ(used(), 0u);
}

TEST_F(Host, RefusesMappingsThatDoNotFit) {
  ASSERT_EQ(driver.reserve(0, 4 * kPage, &address), kSuccess);
  const uint64_t handle = make_page();
  EXPECT_EQ(driver.map(0, address, kPage, handle + 1), kInvalidValue) << "no such page";
  EXPECT_EQ(driver.map(0, address, 2 * kPage, handle), kInvalidValue) << "another size";
  EXPECT_EQ(driver.map(0, address + 4096, kPage, handle), kInvalidValue) << "not aligned";
  EXPECT_EQ(driver.map(0, address + 4 * kPage, kPage, handle), kInvalidValue) << "behind the end";
  EXPECT_EQ(driver.map(0, kPage, kPage, handle), kInvalidValue) << "not reserved";
  EXPECT_EQ(driver.map(0, address, kPage, handle), kSuccess);
  EXPECT_EQ(driver.map(0, address + kPage, kPage, handle), kInvalidValue) << "mapped already";
  EXPECT_EQ(driver.map(0, address, kPage, make_page()), kInvalidValue) << "the place is taken";
  EXPECT_EQ(driver.set_access(0, address, 2 * kPage, 0), kInvalidValue) << "half of it is mapped";
  EXPECT_EQ(driver.set_access(0, address, kPage / 2, 0), kInvalidValue) << "half a page";
  EXPECT_EQ(driver.unmap(0, address, 2 * kPage), kInvalidValue);
  EXPECT_EQ(driver.unmap(0, address + kPage, kPage), kInvalidValue);
  EXPECT_EQ(driver.unreserve(0, address, 4 * kPage), kInvalidValue) << "a page is mapped";
  EXPECT_EQ(driver.unmap(0, address, kPage), kSuccess);
  EXPECT_EQ(driver.unreserve(0, address, 3 * kPage), kInvalidValue) << "another size";
  EXPECT_EQ(driver.unreserve(0, address, 4 * kPage), kSuccess);
}

TEST_F(Host, SeesAPageThatReachesIntoTheNextPlace) {
  ASSERT_EQ(driver.reserve(0, 4 * kPage, &address), kSuccess);
  uint64_t large = 0;
  ASSERT_EQ(driver.create(0, 2 * kPage, HandleType::kNone, false, &large), kSuccess);
  EXPECT_EQ(driver.map(0, address, 2 * kPage, large), kSuccess);
  EXPECT_EQ(driver.map(0, address + kPage, kPage, make_page()), kInvalidValue);
}

TEST_F(Host, WorksInUnitsOfSixtyFourKiB) {
  uint64_t unit = 0;
  uint64_t handle = 0;
  EXPECT_EQ(driver.granularity(0, &unit), kSuccess);
  EXPECT_EQ(unit, 64 * KiB);
  EXPECT_EQ(driver.create(0, kPage + 4096, HandleType::kNone, false, &handle), kInvalidValue);
  EXPECT_EQ(driver.reserve(0, kPage + 4096, &address), kInvalidValue);
}

TEST_F(Host, HasNoFabricAndSharesNothing) {
  int32_t state = -1;
  uint64_t handle = 0;
  ShareableHandle shareable;
  EXPECT_EQ(driver.fabric_state(0, &state), kSuccess);
  EXPECT_EQ(state, 0);
  EXPECT_EQ(driver.create(0, kPage, HandleType::kFabric, false, &handle), kDriverNotSupported);
  EXPECT_EQ(driver.create(0, kPage, HandleType::kPosixFd, false, &handle), kSuccess);
  EXPECT_EQ(driver.export_handle(0, handle, HandleType::kPosixFd, &shareable), kDriverNotSupported);
}

TEST_F(Host, HasDoneAllWorkWhenACallReturns) {
  uint64_t event = 0;
  EXPECT_EQ(driver.event_create(0, &event), kSuccess);
  EXPECT_EQ(driver.event_record(0, event, 5), kSuccess);
  EXPECT_EQ(driver.event_query(0, event), kSuccess);
  EXPECT_EQ(driver.event_synchronize(0, event), kSuccess);
  EXPECT_EQ(driver.event_destroy(0, event), kSuccess);
  CaptureInfo info;
  info.capturing = true;
  EXPECT_EQ(driver.capture_info(0, 5, &info), kSuccess);
  EXPECT_FALSE(info.capturing);
}

TEST_F(Host, KnowsWhatThisProcessUses) {
  ASSERT_EQ(driver.allocate(0, 5 * MiB, &address), kSuccess);
  ASSERT_EQ(driver.processes(0).size(), 1u);
  EXPECT_EQ(driver.processes(0)[0].pid, static_cast<uint64_t>(getpid()));
  EXPECT_EQ(driver.processes(0)[0].used, 5 * MiB);
}

TEST(HostDevices, HaveCapacitiesOfTheirOwn) {
  HostDriver driver({kPage, 2});
  Address first = 0;
  Address second = 0;
  EXPECT_EQ(driver.allocate(0, kPage, &first), kSuccess);
  EXPECT_EQ(driver.allocate(1, kPage, &second), kSuccess);
  EXPECT_EQ(driver.free(1, first), kInvalidValue);
  EXPECT_EQ(driver.enable_peer(0, 1), kSuccess);
  EXPECT_THROW(HostDriver({kPage, 0}), Error);
}

}  // namespace
}  // namespace cachalot
