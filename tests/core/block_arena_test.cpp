// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/heap/block_arena.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "../test_seed.h"

namespace cachalot {
namespace {

// The arena only remembers whose a run of blocks is.
Shard* owner_number(uintptr_t number) { return reinterpret_cast<Shard*>(number * 64); }

constexpr uint32_t kCounts[] = {1, 8, 64, 200, 1024, 5000};
constexpr uint64_t kChunkBytes = kChunkBlocks * (sizeof(Block) + sizeof(BlockDetail));

std::vector<Block*> linked(Block* first) {
  std::vector<Block*> blocks;
  for (Block* b = first; b; b = b->next) blocks.push_back(b);
  return blocks;
}

// Few at a time and many, from the first blocks to the third chunk.
TEST(BlockArena, LeadsFromABlockToItsNumberAndBack) {
  BlockArena arena;
  Random random(test_seed());
  std::set<uint32_t> numbers;
  std::vector<std::pair<Block*, Shard*>> all;
  while (arena.bytes() <= 2 * kChunkBytes) {
    Shard* const owner = owner_number(random.between(1, 3));
    for (Block* block : linked(arena.add(owner, random.pick(kCounts)))) {
      ASSERT_TRUE(numbers.insert(BlockArena::number_of(block)).second);
      all.emplace_back(block, owner);
    }
  }
  EXPECT_EQ(numbers.count(0), 0u) << "means that there is none";
  for (const auto& [block, owner] : all) {
    const uint32_t number = BlockArena::number_of(block);
    ASSERT_EQ(arena.locate(number).block, block);
    ASSERT_EQ(arena.locate(number).shard, owner);
    ASSERT_EQ(BlockArena::block_beside(all.front().first, number), block);
  }
  EXPECT_EQ(BlockArena::block_beside(all.front().first, 0), nullptr);
}

TEST(BlockArena, GivesAboutAsManyAsAsked) {
  BlockArena arena;
  for (int round = 0; round < 100; round++) {
    for (const uint32_t count : kCounts) {
      const size_t given = linked(arena.add(owner_number(1), count)).size();
      ASSERT_GE(given, BlockArena::kRun);
      ASSERT_LE(given, count + BlockArena::kRun - 1);
    }
  }
}

TEST(BlockArena, GivesFreshBlocksInLinesOfTheirOwn) {
  BlockArena arena;
  for (const Block* block : linked(arena.add(owner_number(1), 5000))) {
    ASSERT_EQ(reinterpret_cast<uintptr_t>(block) % 64, 0u);
    ASSERT_EQ(block->flags(), 0u);
    ASSERT_EQ(block->detail().uses, nullptr);
    ASSERT_EQ(block->detail().context, kNoContext);
    ASSERT_EQ(block->detail().segment_context, kNoContext);
    ASSERT_EQ(block->detail().mark, 0u);
  }
}

TEST(BlockArena, CountsWhatItTakes) {
  BlockArena arena;
  EXPECT_EQ(arena.bytes(), 0u);
  EXPECT_EQ(linked(arena.add(owner_number(1), 1)).size(), BlockArena::kRun);
  const uint64_t one_chunk = arena.bytes();
  EXPECT_EQ(one_chunk, kChunkBytes);
  while (arena.bytes() == one_chunk) arena.add(owner_number(2), kChunkBlocks);
  EXPECT_EQ(arena.bytes(), 2 * one_chunk);
}

TEST(BlockArena, GrowsForSeveralThreadsAtATime) {
  BlockArena arena;
  constexpr uintptr_t kThreads = 4;
  std::vector<std::vector<Block*>> made(kThreads);
  std::vector<std::thread> threads;
  for (uintptr_t i = 0; i < kThreads; i++) {
    threads.emplace_back([&, i] {
      for (int run = 0; run < 500; run++) {
        for (Block* block : linked(arena.add(owner_number(i + 1), BlockArena::kRun)))
          made[i].push_back(block);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<uint32_t> numbers;
  for (uintptr_t i = 0; i < kThreads; i++) {
    for (Block* block : made[i]) {
      const uint32_t number = BlockArena::number_of(block);
      ASSERT_TRUE(numbers.insert(number).second);
      ASSERT_EQ(arena.locate(number).block, block);
      ASSERT_EQ(arena.locate(number).shard, owner_number(i + 1));
    }
  }
}

}  // namespace
}  // namespace cachalot
