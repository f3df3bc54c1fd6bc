// SPDX-License-Identifier: MIT OR Apache-2.0
// Limits of control groups (the kernel's dmem controller), over a folder that stands for /sys/fs/cgroup. The fake
// driver's devices are all at 0000:1a:00.0.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "alloc/allocator.h"
#include "base/units.h"
#include "device/cuda_driver.h"
#include "device/device_cgroup.h"
#include "fake_cuda.h"

namespace cachalot {
namespace {

namespace fs = std::filesystem;

class ControlGroups : public testing::Test {
 protected:
  ControlGroups() {
    fake_cuda::reset();
    std::string name = (fs::temp_directory_path() / "cachalot-groups-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    place_ = {folder_ + "/cgroup", folder_ + "/membership"};
    fs::create_directories(place_.root + "/servers/one");
    write(place_.membership, "1:name=systemd:/\n0::/servers/one\n");
  }
  ~ControlGroups() override { fs::remove_all(folder_); }

  static void write(const std::string& path, const std::string& text) {
    std::ofstream(path) << text;
  }
  // What dmem.max or dmem.current of a group says of the device.
  void set(const std::string& group, const char* file, const std::string& value) {
    write(place_.root + group + "/" + file, "drm/0000:03:00.0/vram0 1\ndrm/0000:1a:00.0/vram0 " +
                                                value + "\ndrm/0000:1a:00.0/stolen 2\n");
  }
  void set(const std::string& group, uint64_t limit, uint64_t current) {
    set(group, "dmem.max", std::to_string(limit));
    set(group, "dmem.current", std::to_string(current));
  }

  std::string memory(const std::string& device = "0000:1A:00.0") {
    const auto memory = DeviceCgroup(device, place_).memory();
    if (!memory) return "none";
    return std::to_string(memory->left) + " of " + std::to_string(memory->limit);
  }

  std::shared_ptr<CudaDriver> open() {
    CudaOptions options;
    options.cgroups = place_;
    return std::make_shared<CudaDriver>(options);
  }

  CgroupPlace place_;

 private:
  std::string folder_;
};

TEST_F(ControlGroups, LimitADeviceByTheLowestOfAllAboveTheProcess) {
  set("/servers/one", 1000, 400);
  EXPECT_EQ(memory(), "600 of 1000");
  set("/servers", 800, 700);
  EXPECT_EQ(memory(), "100 of 800");
  set("/servers", 1200, 700);
  EXPECT_EQ(memory(), "500 of 1000");
  EXPECT_EQ(memory("0000:1B:00.0"), "none");
}

TEST_F(ControlGroups, KnowADeviceByEachWayOfWritingItsPlace) {
  for (const char* region :
       {"drm/0000:1a:00.0/vram0", "nvidia/0000:1a:00.0/vidmem", "nvidia/00000000:1A:00.0/vidmem"}) {
    write(place_.root + "/servers/one/dmem.max", region + std::string(" 1000\n"));
    EXPECT_EQ(memory(), "1000 of 1000") << region;
  }
  for (const char* region : {"drm/0000:1a:00.0/stolen", "drm/0001:1a:00.0/vram0", "vram0",
                             "0000:1a:00.0/vram0", "drm/vram0"}) {
    write(place_.root + "/servers/one/dmem.max", region + std::string(" 1000\n"));
    EXPECT_EQ(memory(), "none") << region;
  }
}

TEST_F(ControlGroups, LeaveNothingWhereTheyAreAboveTheirLimit) {
  set("/servers/one", 1000, 1001);
  EXPECT_EQ(memory(), "0 of 1000");
}

TEST_F(ControlGroups, AddUpTheRegionsOfADevice) {
  write(place_.root + "/servers/one/dmem.max",
        "drm/0000:1a:00.0/vram0 1000\ndrm/0000:1a:00.0/vram1 500\n");
  write(place_.root + "/servers/one/dmem.current",
        "drm/0000:1a:00.0/vram0 100\ndrm/0000:1a:00.0/vram1 50\n");
  EXPECT_EQ(memory(), "1350 of 1500");
}

TEST_F(ControlGroups, LimitNothingWithoutANumber) {
  EXPECT_EQ(memory(), "none") << "no controller";
  for (const char* value : {"max", "many", "-1", "", "18446744073709551616"}) {
    set("/servers/one", "dmem.max", value);
    EXPECT_EQ(memory(), "none") << value;
  }
  set("/servers/one", "dmem.max", "1000");
  EXPECT_EQ(memory(), "1000 of 1000") << "no dmem.current";
}

// In a container of its own namespace the root is the container's group.
TEST_F(ControlGroups, AreLookedForAtTheRootWhereTheProcessIsThere) {
  set("", 1000, 0);
  for (const char* path : {"0::/\n", "0::/../../elsewhere\n"}) {
    write(place_.membership, path);
    EXPECT_EQ(memory(), "1000 of 1000") << path;
  }
}

TEST_F(ControlGroups, LimitNothingWithoutVersion2) {
  set("", 1000, 0);
  write(place_.membership, "1:name=systemd:/\n");
  EXPECT_EQ(memory(), "none");
  fs::remove(place_.membership);
  EXPECT_EQ(memory(), "none");
}

TEST_F(ControlGroups, AreWhatADeviceIsSeenToHave) {
  const auto driver = open();
  uint64_t available = 0;
  uint64_t total = 0;
  ASSERT_EQ(driver->memory_info(0, &available, &total), kSuccess);
  EXPECT_EQ(total, 16 * GiB);
  set("/servers/one", 3 * GiB, GiB);
  ASSERT_EQ(driver->memory_info(0, &available, &total), kSuccess);
  EXPECT_EQ(available, 2 * GiB);
  EXPECT_EQ(total, 3 * GiB);
  ASSERT_EQ(driver->total_memory(0, &total), kSuccess);
  EXPECT_EQ(total, 3 * GiB);
  set("/servers/one", 30 * GiB, GiB);
  ASSERT_EQ(driver->memory_info(0, &available, &total), kSuccess);
  EXPECT_EQ(total, 16 * GiB) << "the device has no more";
}

TEST_F(ControlGroups, AreNotLookedAtUnlessAskedFor) {
  set("/servers/one", GiB, GiB);
  CudaDriver driver;
  uint64_t available = 0;
  uint64_t total = 0;
  ASSERT_EQ(driver.memory_info(0, &available, &total), kSuccess);
  EXPECT_EQ(available, 16 * GiB);
  EXPECT_FALSE(driver.is_nearly_full(0));
}

// ---- Trims

class TrimsInAGroup : public ControlGroups {
 protected:
  // Three free segments of 32 MiB, of which the first has been idle for 100 ns.
  TrimsInAGroup() {
    set("/servers/one", GiB, GiB / 2);
    AllocatorOptions options;
    options.driver = open();
    allocator_ = std::make_unique<Allocator>(options);
    const Address first = allocator_->allocate(32 * MiB, 0, 0);
    const Address second = allocator_->allocate(32 * MiB, 0, 0);
    const Address third = allocator_->allocate(32 * MiB, 0, 0);
    allocator_->free(first);
    EXPECT_EQ(trim(0), 0u);
    allocator_->free(second);
    allocator_->free(third);
  }

  // Bytes that have gone, so many nanoseconds after the trim before.
  uint64_t trim(uint64_t keep, uint64_t later = 100) {
    uint64_t released = 0;
    now_ += later;
    allocator_->trim(0, {.keep_bytes = keep, .min_idle_ns = 100, .now_ns = now_}, &released);
    return released;
  }

  std::unique_ptr<Allocator> allocator_;

 private:
  uint64_t now_ = 0;
};

TEST_F(TrimsInAGroup, GiveBackWhatHasIdledWhileThereIsRoom) {
  EXPECT_EQ(trim(0), 32 * MiB);
  EXPECT_EQ(trim(0, 99), 0u);
  EXPECT_EQ(trim(0, 1), 64 * MiB);
}

TEST_F(TrimsInAGroup, DoNotWaitUntilMemoryHasIdledWhereASixteenthIsNotLeft) {
  set("/servers/one", GiB, GiB - 64 * MiB);
  EXPECT_EQ(trim(0), 32 * MiB) << "just enough is left";
  set("/servers/one", GiB, GiB - 64 * MiB + 1);
  EXPECT_EQ(trim(0, 1), 64 * MiB);
}

TEST_F(TrimsInAGroup, KeepTheBytesThatTheyWereToldToKeep) {
  set("/servers/one", GiB, GiB);
  EXPECT_EQ(trim(32 * MiB), 64 * MiB);
}

}  // namespace
}  // namespace cachalot
