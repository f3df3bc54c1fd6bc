// SPDX-License-Identifier: MIT OR Apache-2.0
// Releases that an exception ends, of a driver or of a source of memory: nothing has changed then.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <stdexcept>
#include <vector>

#include "alloc/allocator.h"
#include "base/error.h"
#include "device/sim_driver.h"

namespace cachalot {
namespace {

constexpr uint64_t kSize = 512;
constexpr PoolId kPool{0, 1};

// Calls throw while `throws` is set.
class ThrowingDriver final : public SimDriver {
 public:
  explicit ThrowingDriver(uint64_t memory) : SimDriver({memory, 1}) {}
  DriverCode free(int device, Address address) override {
    if (throws) throw std::runtime_error("the driver's free");
    return SimDriver::free(device, address);
  }
  DriverCode set_access(int device, Address address, uint64_t size, int peer) override {
    if (throws) throw std::runtime_error("the driver's access");
    return SimDriver::set_access(device, address, size, peer);
  }

  bool throws = false;
};

struct ThrowingSource final : PoolSource {
  Address allocate(uint64_t, int, Stream) override { return 0x900000000000; }
  void free(Address, uint64_t, int, Stream) override {
    if (throws) throw std::runtime_error("the source's free");
  }

  bool throws = false;
};

class FailedReleases : public testing::Test {
 protected:
  void make(const std::string& config = "", uint64_t memory = GiB) {
    driver_ = std::make_shared<ThrowingDriver>(memory);
    AllocatorOptions options;
    options.driver = driver_;
    options.config = config;
    allocator_ = std::make_unique<Allocator>(options);
  }
  // A cached block, of the default pool.
  void cache_block() {
    block_ = allocator_->allocate(kSize, 0, 0);
    allocator_->free(block_);
  }
  // The block is handed out again, and is found when it is freed.
  void expect_block_is_cached() {
    EXPECT_EQ(allocator_->check(), "");
    EXPECT_EQ(allocator_->allocate(kSize, 0, 0), block_);
    EXPECT_NO_THROW(allocator_->free(block_));
    EXPECT_EQ(allocator_->check(), "");
  }

  std::shared_ptr<ThrowingDriver> driver_;
  std::unique_ptr<Allocator> allocator_;
  Address block_ = 0;
};

TEST_F(FailedReleases, OfAnEmptiedCacheLeaveTheBlockThere) {
  make();
  cache_block();
  driver_->throws = true;
  EXPECT_THROW(allocator_->empty_cache(0), std::runtime_error);
  driver_->throws = false;
  expect_block_is_cached();
}

TEST_F(FailedReleases, OfATrimLeaveTheBlockThere) {
  make();
  cache_block();
  driver_->throws = true;
  uint64_t released = 0;
  EXPECT_THROW(allocator_->trim(0, {}, &released), std::runtime_error);
  EXPECT_EQ(released, 0u);
  driver_->throws = false;
  expect_block_is_cached();
}

TEST_F(FailedReleases, OfAPoolWithASourceLeaveTheBlockThere) {
  make();
  const auto source = std::make_shared<ThrowingSource>();
  allocator_->pool_create(0, kPool, {.source = source});
  allocator_->pool_begin(0, kPool, [](Stream) { return true; });
  cache_block();
  allocator_->pool_end(0, kPool);
  for (int uses = 2; uses > 0; uses--) allocator_->pool_release(0, kPool);
  source->throws = true;
  EXPECT_THROW(allocator_->empty_cache(0), std::runtime_error);
  EXPECT_EQ(allocator_->check(), "");
  source->throws = false;
  EXPECT_NO_THROW(allocator_->empty_cache(0));
  EXPECT_EQ(allocator_->stats(0).reserved_bytes.all.current, 0);
}

TEST_F(FailedReleases, OfMemoryWithoutTheCacheLeaveTheBlockThere) {
  make();
  allocator_->set_caching_enabled(false);
  block_ = allocator_->allocate(kSize, 0, 0);
  driver_->throws = true;
  EXPECT_THROW(allocator_->free(block_), std::runtime_error);
  driver_->throws = false;
  EXPECT_NO_THROW(allocator_->free(block_));
}

TEST_F(FailedReleases, OfPagesWithoutAccessGiveThePagesBack) {
  make("expandable_segments:True");
  driver_->throws = true;
  EXPECT_THROW(allocator_->allocate(kSize, 0, 0), std::runtime_error);
  EXPECT_EQ(allocator_->check(), "");
  uint64_t available = 0;
  uint64_t total = 0;
  driver_->memory_info(0, &available, &total);
  EXPECT_EQ(available, total);
  driver_->throws = false;
  cache_block();
  expect_block_is_cached();
}

// -1 is a limit of 2^64 - 2^20 bytes [opt 4.2], beyond all sizes of blocks.
TEST_F(FailedReleases, ForALimitBeyondAllSizesEndInOutOfMemory) {
  make("max_split_size_mb:-1", 64 * MiB);
  const std::vector<Address> blocks = {allocator_->allocate(30 * MiB, 0, 0),
                                       allocator_->allocate(20 * MiB, 0, 0)};
  for (const Address block : blocks) allocator_->free(block);
  EXPECT_THROW(allocator_->allocate(70 * MiB, 0, 0), Error);
  EXPECT_EQ(allocator_->check(), "");
}

}  // namespace
}  // namespace cachalot
