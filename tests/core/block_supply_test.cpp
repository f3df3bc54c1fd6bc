// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/heap/block_supply.h"

#include <gtest/gtest.h>

#include <set>

namespace cachalot {
namespace {

// The arena gives at most so many at a time, and fewer where a chunk ends.
constexpr uint32_t kCounts[] = {1, 8, 9, 64, 1000, 5000, 100'000};

TEST(BlockSupply, HasAsManyObjectsAsWereReserved) {
  for (const uint32_t count : kCounts) {
    BlockArena arena;
    BlockSupply supply(reinterpret_cast<Shard*>(uintptr_t{64}));  // which the arena only remembers
    for (int turn = 0; turn < 3; turn++) {
      supply.reserve(count, arena);
      std::set<const Block*> taken;
      for (uint32_t i = 0; i < count; i++) {
        ASSERT_FALSE(supply.is_empty()) << i << " of " << count;
        ASSERT_TRUE(taken.insert(supply.take()).second);
      }
    }
  }
}

TEST(BlockSupply, AsksForNothingThatItHas) {
  BlockArena arena;
  BlockSupply supply(reinterpret_cast<Shard*>(uintptr_t{64}));
  supply.reserve(5000, arena);
  const uint64_t before = arena.bytes();
  for (int turn = 0; turn < 1000; turn++) supply.reserve(5000, arena);
  EXPECT_EQ(arena.bytes(), before);
}

}  // namespace
}  // namespace cachalot
