// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/heap/segment_heap.h"

#include <gtest/gtest.h>

#include <vector>

#include "heap_parts.h"

namespace cachalot {
namespace {

constexpr Stream kStream = 1;

class Heap : public testing::Test {
 protected:
  using Blocks = std::vector<const Block*>;

  BlockPool& pool() { return heap_.default_pool(false); }
  Block* add_segment(uint64_t size = 8 * MiB) { return parts_.add_segment(pool(), kStream, size); }
  Block* split_front(Block* block, uint64_t size) {
    return SegmentHeap::split_front(parts_.shard.supply, block, size);
  }
  Blocks blocks() const {
    Blocks blocks;
    heap_.for_each_block([&](const Block* block) { blocks.push_back(block); });
    return blocks;
  }

  Blocks recycled_;
  HeapParts parts_{[this](const Block* block) { recycled_.push_back(block); }};
  SegmentHeap& heap_ = parts_.heap;
};

TEST_F(Heap, CoversANewSegmentWithOneBlock) {
  const Block* const block = add_segment();
  const Segment& segment = *block->segment();
  EXPECT_EQ(block->address, segment.address);
  EXPECT_EQ(block->size, segment.size);
  EXPECT_FALSE(block->is_split());
  EXPECT_EQ(segment.pool, &pool());
  EXPECT_EQ(list_of(block).segments, 1u);
  EXPECT_TRUE(list_of(block).free.empty());
  EXPECT_EQ(blocks(), Blocks{block});
}

TEST_F(Heap, ForgetsASegmentThatIsRemoved) {
  Block* const first = add_segment();
  Block* const second = add_segment();
  StreamFreeList& list = list_of(first);
  heap_.remove_segment(first);
  EXPECT_EQ(list.segments, 1u);
  EXPECT_EQ(heap_.segments().size(), 1u);
  EXPECT_EQ(blocks(), Blocks{second});
}

TEST_F(Heap, FindsTheSegmentThatHasAByteOfARange) {
  const Segment* const segment = add_segment()->segment();
  const Address begin = segment->address;
  const Address end = begin + segment->size;
  EXPECT_EQ(heap_.segment_in(begin, 1), segment);
  EXPECT_EQ(heap_.segment_in(end - 1, 1), segment);
  EXPECT_EQ(heap_.segment_in(begin - 1, 2), segment) << "it begins inside the range";
  EXPECT_EQ(heap_.segment_in(begin - 1, 1), nullptr);
  EXPECT_EQ(heap_.segment_in(end, 1), nullptr);
  EXPECT_EQ(heap_.segment_in(0, begin), nullptr);
  EXPECT_EQ(heap_.segment_in(end, UINT64_MAX - end + 1), nullptr);
}

// [core 9.2]
TEST_F(Heap, KeepsTheObjectAsTheRemainderWhenItSplitsTheFront) {
  Block* const block = add_segment();
  const Address address = block->address;
  Block* const front = split_front(block, MiB);
  EXPECT_EQ(front->address, address);
  EXPECT_EQ(front->size, MiB);
  EXPECT_EQ(block->address, address + MiB);
  EXPECT_EQ(block->size, 7 * MiB);
  EXPECT_EQ(front->segment(), block->segment());
  EXPECT_EQ(blocks(), (Blocks{front, block}));
  EXPECT_TRUE(front->is_split() && block->is_split());
}

TEST_F(Heap, SplitsTheBackInTheSameState) {
  Block* const block = add_segment();
  block->set_flags(Block::kExpandable | Block::kUnmapped);
  Block* const back = SegmentHeap::split_back(block, 2 * MiB);
  EXPECT_EQ(block->size, 6 * MiB);
  EXPECT_EQ(back->address, block->address + 6 * MiB);
  EXPECT_EQ(back->size, 2 * MiB);
  EXPECT_EQ(back->flags(), block->flags());
  EXPECT_EQ(blocks(), (Blocks{block, back}));
}

// [core 11]
TEST_F(Heap, KeepsTheIdentityOfABlockThatTakesItsNeighboursIn) {
  Block* const after = add_segment();
  const Address address = after->address;
  Block* const before = split_front(after, MiB);
  Block* const block = split_front(after, MiB);
  heap_.insert_free(before);
  heap_.insert_free(after);
  heap_.merge(block, {true, true});
  EXPECT_EQ(block->address, address);
  EXPECT_EQ(block->size, 8 * MiB);
  EXPECT_FALSE(block->is_split());
  EXPECT_TRUE(list_of(block).free.empty()) << "the neighbours have left it";
  EXPECT_EQ(blocks(), Blocks{block});
}

TEST_F(Heap, LeavesNeighboursThatAreNotToBeMergedAlone) {
  Block* const after = add_segment();
  Block* const block = split_front(after, MiB);
  after->set(Block::kUsed);
  heap_.merge(block, free_neighbours(block));
  EXPECT_EQ(blocks(), (Blocks{block, after}));
}

TEST_F(Heap, TakesAnUnmappedNeighbourOutOfTheSetOfItsPool) {
  Block* const after = add_segment();
  after->set_flags(Block::kExpandable | Block::kUnmapped);
  Block* const block = split_front(after, 2 * MiB);
  pool().insert_unmapped(BlockPool::new_unmapped(), after);
  heap_.merge(block, free_neighbours(block));
  EXPECT_TRUE(pool().unmapped.empty());
  EXPECT_EQ(block->size, 8 * MiB);
}

TEST_F(Heap, FindsFreeBlocksUntilTheyAreRemoved) {
  Block* const block = add_segment();
  StreamFreeList& list = list_of(block);
  heap_.insert_free(block);
  EXPECT_EQ(list.free.first_at_least(MiB), block);
  SegmentHeap::remove_free(block);
  EXPECT_TRUE(list.free.empty());
}

// [core 13.3]
TEST_F(Heap, MarksFreeBlocksWithTheirAgeOnlyWhereAgesCount) {
  Block* const block = add_segment();
  pool().search_count = 5;
  heap_.insert_free(block);
  EXPECT_EQ(block->detail().mark, 0u);
  SegmentHeap::remove_free(block);
  parts_.flags.add(SlowPath::kMarks);
  heap_.insert_free(block);
  EXPECT_EQ(block->detail().mark, 5u);
}

// P32
TEST_F(Heap, TakesTheContextOfTheSegmentOverFromTheBlockBefore) {
  parts_.flags.add(SlowPath::kContexts);
  Block* const block = add_segment();
  Block* const before = split_front(block, MiB);
  before->detail().segment_context = 7;
  block->detail().segment_context = 8;
  heap_.absorb_previous(parts_.shard.supply, block);
  EXPECT_EQ(block->detail().segment_context, 7u);
  EXPECT_EQ(before->detail().segment_context, kNoContext) << "the object stands for no block";
}

// U2
TEST_F(Heap, TellsOfObjectsThatStandForNoBlockWhileUsesAreStale) {
  Block* const block = add_segment();
  split_front(block, MiB);
  heap_.absorb_previous(parts_.shard.supply, block);
  EXPECT_EQ(recycled_, Blocks());
  const Block* const before = split_front(block, MiB);
  parts_.flags.add(SlowPath::kStaleUses);
  heap_.absorb_previous(parts_.shard.supply, block);
  EXPECT_EQ(recycled_, Blocks{before});
  heap_.remove_segment(block);
  EXPECT_EQ(recycled_, (Blocks{before, block}));
}

}  // namespace
}  // namespace cachalot
