// SPDX-License-Identifier: MIT OR Apache-2.0
// Which hits take the device's lock.
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <mutex>

#include "alloc/native/hot_path.h"
#include "alloc/shards/device_lock.h"
#include "device/sim_driver.h"

namespace cachalot {
namespace {

constexpr Stream kStream = 7;
constexpr uint64_t kSize = 512;
constexpr auto kPatience = std::chrono::seconds(20);

AllocatorOptions simulated() {
  AllocatorOptions options;
  options.driver = std::make_shared<SimDriver>();
  return options;
}

class HitsBesideTheDevicesLock : public testing::Test {
 protected:
  HitsBesideTheDevicesLock() {
    const DeviceLock lock(device_->shards, kStream);
    lock.entry().lists = 1;  // the stream has memory, so its entry stays
    shard_ = lock.entry().shard;
  }
  std::unique_ptr<DeviceState> make_device() {
    const auto lock = shared_.settings.lock();
    return std::make_unique<DeviceState>(shared_, 0, nullptr);
  }
  void expect_general_path_without_the_lock(uint32_t flags) {
    device_->flags.add(flags);
    EXPECT_TRUE(returns_beside_the_lock([this] {
      EXPECT_EQ(hits::try_allocate<DecidedBy::kReference>(*device_, kSize, kStream), Address{0});
    }));
    Block block;
    EXPECT_TRUE(returns_beside_the_lock([&] {
      EXPECT_FALSE(hits::try_free<DecidedBy::kReference>(*device_, *shard_, &block, block.address));
    }));
  }
  // Whether a call returns while the device's lock is taken.
  template <class Call>
  bool returns_beside_the_lock(Call call) {
    std::future<void> result;  // its end waits for the call, so it comes after the unlock
    const std::lock_guard guard(device_->shards.lock());
    result = std::async(std::launch::async, call);
    return result.wait_for(kPatience) == std::future_status::ready;
  }

  AllocatorOptions options_ = simulated();
  SharedState shared_{options_};
  std::unique_ptr<DeviceState> device_ = make_device();
  Shard* shard_ = nullptr;
};

TEST_F(HitsBesideTheDevicesLock, WithHistoryGoTheGeneralWayWhileASnapshotCopies) {
  expect_general_path_without_the_lock(SlowPath::kTracing | SlowPath::kCopying);
}

TEST_F(HitsBesideTheDevicesLock, GoTheGeneralWayWhileHeadroomIsRecalled) {
  expect_general_path_without_the_lock(SlowPath::kScarce);
}

}  // namespace
}  // namespace cachalot
