// SPDX-License-Identifier: MIT OR Apache-2.0
// Live blocks by any address inside of them.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>

#include "alloc/allocator.h"
#include "base/units.h"
#include "device/sim_driver.h"

using namespace cachalot;

namespace {

std::unique_ptr<Allocator> make_allocator(const std::string& config) {
  AllocatorOptions options;
  options.driver = std::make_shared<SimDriver>(SimOptions{});
  options.config = config;
  return std::make_unique<Allocator>(options);
}

void expect_around(Allocator& allocator, Address inside, Address address, uint64_t requested) {
  const auto found = allocator.find_block_around(inside);
  ASSERT_TRUE(found) << std::hex << inside;
  EXPECT_EQ(found->address, address);
  EXPECT_EQ(found->requested, requested);
}

TEST(FindBlock, FindsABlockByItsBeginAlone) {
  const auto allocator = make_allocator("");
  const Address address = allocator->allocate(5000, 0, 0);
  EXPECT_EQ(allocator->find_block(address)->requested, 5000u);
  EXPECT_FALSE(allocator->find_block(address + 512));
  allocator->free(address);
  EXPECT_FALSE(allocator->find_block(address));
}

TEST(FindBlock, FindsABlockByAnyAddressInside) {
  for (const char* config : {"", "expandable_segments:True"}) {
    const auto allocator = make_allocator(config);
    for (const uint64_t size :
         {uint64_t{1}, uint64_t{5000}, 700 * KiB, 3 * MiB, 30 * MiB, 3 * GiB}) {
      const Address before = allocator->allocate(size, 0, 0);
      const Address address = allocator->allocate(size, 0, 0);
      const Address behind = allocator->allocate(size, 0, 0);
      for (const uint64_t offset : {uint64_t{0}, size / 3, size / 2, size - 1})
        expect_around(*allocator, address + offset, address, size);
      allocator->free(address);
      EXPECT_FALSE(allocator->find_block_around(address + size / 2));
      allocator->free(before);
      allocator->free(behind);
    }
  }
}

TEST(FindBlock, FindsNothingWhereNoBlockWas) {
  const auto allocator = make_allocator("");
  EXPECT_FALSE(allocator->find_block_around(0));
  EXPECT_FALSE(allocator->find_block_around(1));
  EXPECT_FALSE(allocator->find_block_around(UINT64_MAX));
  const Address address = allocator->allocate(512, 0, 0);
  EXPECT_FALSE(allocator->find_block_around(address + 512));
  EXPECT_FALSE(allocator->find_block_around(address - 1));
  allocator->free(address);
}

TEST(FindBlock, AgreesWithWhatIsLiveAfterRandomOperations) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto allocator = make_allocator("");
  std::map<Address, uint64_t> live;
  const uint64_t largest[] = {2 * KiB, 900 * KiB, 9 * MiB, 60 * MiB};
  for (int i = 0; i < 3000; i++) {
    if (live.size() < 50 || random() % 2 == 0) {
      const uint64_t size = 1 + random() % largest[random() % 4];
      live[allocator->allocate(size, 0, random() % 3)] = size;
    } else {
      const auto victim = std::next(live.begin(), static_cast<long>(random() % live.size()));
      allocator->free(victim->first);
      live.erase(victim);
    }
    const auto asked = std::next(live.begin(), static_cast<long>(random() % live.size()));
    expect_around(*allocator, asked->first + random() % asked->second, asked->first, asked->second);
  }
  for (const auto& [address, size] : live) allocator->free(address);
}

}  // namespace
