// SPDX-License-Identifier: MIT OR Apache-2.0
// Memory goes back to the driver in two steps: the driver frees it, and the device forgets it. Between
// them the driver may give the same addresses to another device.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "alloc/allocator.h"
#include "base/lock_rank.h"
#include "device/sim_driver.h"

namespace cachalot {
namespace {

// Two devices. A free is answered once `on_free` has run.
class ObservedDriver final : public SimDriver {
 public:
  ObservedDriver() : SimDriver({GiB, 2}) {}
  DriverCode free(int device, Address address) override {
    const DriverCode code = SimDriver::free(device, address);
    if (const auto observe = std::exchange(on_free, nullptr)) observe(address);
    return code;
  }

  std::function<void(Address)> on_free;
};

class AddressReuse : public testing::Test {
 protected:
  AddressReuse() {
    AllocatorOptions options;
    options.driver = driver_;
    allocator_ = std::make_unique<Allocator>(options);
    block_ = allocator_->allocate(512, 0, 0);
    allocator_->free(block_);
  }

  // Device 1 gets what device 0 gives back.
  void expect_blocks_are_found(const std::function<void()>& give_back) {
    std::vector<Address> blocks;
    driver_->on_free = [&](Address address) {
      [[maybe_unused]] const LockScope another_thread{};
      driver_->machine().give_addresses(1, {&address, 1});
      for (int i = 0; i < 3; i++) blocks.push_back(allocator_->allocate(512, 1, 0));
    };
    give_back();
    ASSERT_EQ(blocks, (std::vector<Address>{block_, block_ + 512, block_ + 1024}));
    for (const Address block : blocks) EXPECT_NO_THROW(allocator_->free(block));
    EXPECT_EQ(allocator_->live_blocks(), 0u);
    EXPECT_EQ(allocator_->check(), "");
  }

  std::shared_ptr<ObservedDriver> driver_ = std::make_shared<ObservedDriver>();
  std::unique_ptr<Allocator> allocator_;
  Address block_ = 0;
};

TEST_F(AddressReuse, KeepsTheBlocksOfTheDeviceThatGetsWhatAnEmptiedCacheReleases) {
  expect_blocks_are_found([&] { allocator_->empty_cache(0); });
}

TEST_F(AddressReuse, KeepsTheBlocksOfTheDeviceThatGetsWhatATrimReleases) {
  uint64_t released = 0;
  expect_blocks_are_found([&] { allocator_->trim(0, {}, &released); });
  EXPECT_EQ(released, 2 * MiB);
}

TEST_F(AddressReuse, LeavesMemoryInUseThatTheDriverDoesNotTake) {
  driver_->machine().fail({.calls = static_cast<uint32_t>(SimCall::kFree), .code = 1});
  EXPECT_THROW(allocator_->empty_cache(0), Error);
  std::vector<Address> blocks;
  for (int i = 0; i < 300; i++) blocks.push_back(allocator_->allocate(512, 0, 0));
  EXPECT_EQ(blocks.front(), block_);
  EXPECT_EQ(allocator_->check(), "");
  for (const Address block : blocks) EXPECT_NO_THROW(allocator_->free(block));
}

}  // namespace
}  // namespace cachalot
