// SPDX-License-Identifier: MIT OR Apache-2.0
// FreeBlocks against a sorted set with the same order.
#include "alloc/heap/free_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "../sanitizers.h"
#include "../test_seed.h"
#include "alloc/heap/block_arena.h"
#include "alloc/heap/page_table.h"
#include "base/units.h"
#include "process_memory.h"

namespace cachalot {
namespace {

// Free blocks that belong to a few segments, whose numbers do not grow with their addresses. As in an
// allocator, blocks of one size do not overlap, where that is possible.
class Blocks {
 public:
  Blocks() {
    for (size_t i = 0; i < std::size(segments_); i++) {
      segments_[i].number = static_cast<int64_t>(i * 5 % 8);
      segments_[i].address = (i + 1) * kSegmentSize;
      segments_[i].size = kSegmentSize;
    }
    huge_.number = 20;
    huge_.size = uint64_t{1} << 63;
  }

  Block* make(uint64_t size, Random& random) {
    return make_in(size <= kSegmentSize / 256 ? random.pick(segments_) : huge_, size, random);
  }
  Block* make_in(Segment& segment, uint64_t size, Random& random) {
    if (!spare_) spare_ = arena_.add(reinterpret_cast<Shard*>(64), 1000);  // never looked at
    Block* block = std::exchange(spare_, spare_->next);
    block->size = size;
    do {
      block->address =
          segment.address + (&segment == &huge_
                                 ? taken_.size() * 512
                                 : random.below(std::min(kSegmentSize / size, kPlaces)) * size);
    } while (!taken_.insert({size, block->address}).second);
    block->set_home(&segment, 0);
    return block;
  }
  Segment& segment(size_t number) { return segments_[number]; }

 private:
  static constexpr uint64_t kSegmentSize = uint64_t{1} << 40;
  static constexpr uint64_t kPlaces = 2000;  // for each size, so that they are close together

  Segment segments_[8];
  Segment huge_;
  std::set<std::pair<uint64_t, Address>> taken_;
  BlockArena arena_;
  Block* spare_ = nullptr;
};

struct Order {
  bool ties_by_segment_number;

  bool operator()(const Block* a, const Block* b) const { return key(a) < key(b); }
  std::tuple<uint64_t, int64_t, Address> key(const Block* block) const {
    return {block->size, ties_by_segment_number ? block->segment()->number : 0, block->address};
  }
};

// The set under test and the one that it has to be like.
class Sets {
 public:
  explicit Sets(bool ties_by_segment_number)
      : blocks_(ties_by_segment_number), expected_(Order{ties_by_segment_number}) {}

  void insert(Block* block) {
    blocks_.insert(block);
    expected_.insert(block);
    bytes_ += block->size;
  }
  void remove(Block* block) {
    blocks_.remove(block);
    expected_.erase(block);
    bytes_ -= block->size;
  }
  void insert_without_memory(const std::vector<Block*>& blocks) {
    {
      const NoNewMemory none;
      for (Block* block : blocks) blocks_.insert(block);
    }
    for (Block* block : blocks) {
      expected_.insert(block);
      bytes_ += block->size;
    }
  }
  bool contains(Block* block) const { return expected_.count(block) != 0; }
  size_t size() const { return expected_.size(); }

  void expect_consistent() const {
    uint64_t count = 0;
    uint64_t bytes = 0;
    ASSERT_TRUE(blocks_.is_consistent(&count, &bytes));
    ASSERT_EQ(count, expected_.size());
    ASSERT_EQ(bytes, bytes_);
  }
  void expect_equal_ends() const {
    ASSERT_EQ(blocks_.empty(), expected_.empty());
    ASSERT_EQ(blocks_.first(), expected_.empty() ? nullptr : *expected_.begin());
    ASSERT_EQ(blocks_.last(), expected_.empty() ? nullptr : *expected_.rbegin());
  }
  void expect_equal_lookup(uint64_t size) {
    Block smallest{};
    Segment before_all;
    before_all.number = -1;
    smallest.size = size;
    smallest.set_home(&before_all, 0);
    const auto found = expected_.lower_bound(&smallest);
    ASSERT_EQ(blocks_.first_at_least(size), found == expected_.end() ? nullptr : *found);
  }
  void expect_equal_neighbours(Block* block) {
    const auto place = expected_.find(block);
    const auto after = std::next(place);
    ASSERT_EQ(blocks_.next(block), after == expected_.end() ? nullptr : *after);
    ASSERT_EQ(blocks_.previous(block), place == expected_.begin() ? nullptr : *std::prev(place));
  }
  void expect_equal_walk() const {
    const Block* block = blocks_.first();
    for (const Block* expected : expected_) {
      ASSERT_EQ(block, expected);
      block = blocks_.next(block);
    }
    ASSERT_EQ(block, nullptr);
  }

 private:
  FreeBlocks blocks_;
  std::set<Block*, Order> expected_;
  uint64_t bytes_ = 0;
};

using Sizes = std::function<uint64_t(Random&)>;

struct Load {
  std::string name;
  size_t blocks;
  Sizes sizes;
};

uint64_t any_size(Random& random) {
  return round_up(random.of_any_magnitude(1, uint64_t{1} << 61), 512);
}

const Load kLoads[] = {
    {"one_size", 3000, [](Random&) { return 4 * KiB; }},
    {"sizes_of_one_bin", 3000, [](Random& random) { return GiB + 512 * random.below(4096); }},
    {"few_small_sizes", 1000, [](Random& random) { return 512 * random.between(1, 40); }},
    {"two_neighbouring_bins", 300, [](Random& random) { return MiB + 8 * KiB * random.below(4); }},
    {"sizes_of_all_magnitudes", 1500, any_size},
};

class EveryLoad : public testing::TestWithParam<std::tuple<bool, Load>> {};

// Rises and falls twice: trees come where bins get long, and go where they become empty.
TEST_P(EveryLoad, IsLikeASortedSet) {
  Random random(test_seed());
  const auto& [ties_by_segment_number, load] = GetParam();
  Sets sets(ties_by_segment_number);
  Blocks blocks;
  std::vector<Block*> all;
  for (size_t i = 0; i < load.blocks; i++) all.push_back(blocks.make(load.sizes(random), random));
  for (const uint64_t removals_in_8 : {1, 7, 2, 7}) {
    for (size_t step = 0; step < 2 * load.blocks; step++) {
      Block* block = random.pick(all);
      const bool removes = random.below(8) < removals_in_8;
      if (removes == sets.contains(block)) removes ? sets.remove(block) : sets.insert(block);
      if (sets.contains(block)) sets.expect_equal_neighbours(block);
      sets.expect_equal_ends();
      sets.expect_equal_lookup(random.one_in(3) ? any_size(random) : load.sizes(random));
      if (sets.size() < 100 || random.one_in(8)) sets.expect_consistent();
      if (HasFatalFailure()) return;
    }
    sets.expect_equal_walk();
    if (HasFatalFailure()) return;
  }
}

TEST_P(EveryLoad, IsEmptyAgainWhenAllAreRemovedFromTheFront) {
  Random random(test_seed());
  const auto& [ties_by_segment_number, load] = GetParam();
  FreeBlocks set(ties_by_segment_number);
  Blocks blocks;
  for (int round = 0; round < 2; round++) {
    for (size_t i = 0; i < load.blocks; i++) set.insert(blocks.make(load.sizes(random), random));
    for (size_t i = 0; i < load.blocks; i++) {
      const uint64_t size = set.first()->size;
      ASSERT_EQ(set.first_at_least(size), set.first());
      ASSERT_EQ(set.previous(set.first()), nullptr);
      set.remove(set.first());
    }
    ASSERT_TRUE(set.empty());
    ASSERT_EQ(set.first_at_least(512), nullptr);
  }
}

INSTANTIATE_TEST_SUITE_P(FreeBlocks, EveryLoad,
                         testing::Combine(testing::Bool(), testing::ValuesIn(kLoads)),
                         [](const auto& test) {
                           return std::get<1>(test.param).name +
                                  (std::get<0>(test.param) ? "_by_segment" : "_by_address");
                         });

TEST(FreeBlocks, BreaksTiesByTheRuleThatItWasGiven) {
  Segment older;
  older.number = 1;
  Segment newer;
  newer.number = 2;
  Block low{};
  low.address = 0x10000;
  low.set_home(&newer, 0);
  Block high{};
  high.address = 0x20000;
  high.set_home(&older, 0);
  low.size = high.size = 512;
  for (const bool by_segment : {false, true}) {
    FreeBlocks set(by_segment);
    set.insert(&low);
    set.insert(&high);
    EXPECT_EQ(set.first_at_least(512), by_segment ? &high : &low);
  }
}

TEST(FreeBlocks, PutsLargerSizesNeverIntoSmallerBins) {
  Random random(test_seed());
  unsigned last = 0;
  for (uint64_t size = 512; size <= 4 * MiB; size += 512) {
    ASSERT_GE(FreeBlocks::bin_of(size), last);
    last = FreeBlocks::bin_of(size);
  }
  for (int i = 0; i < 20000; i++) {
    const uint64_t size = any_size(random);
    const uint64_t other = any_size(random);
    const bool in_order = size <= other ? FreeBlocks::bin_of(size) <= FreeBlocks::bin_of(other)
                                        : FreeBlocks::bin_of(size) >= FreeBlocks::bin_of(other);
    ASSERT_TRUE(in_order) << size << " and " << other;
  }
}

// Made by inserts at the front, which never walk; the first search that does makes a tree of them.
TEST(FreeBlocks, OfALongListAreFoundAndWalkedInOrder) {
  Random random(test_seed());
  Blocks source;
  Sets sets(false);
  for (uint64_t i = 200; i-- > 0;) sets.insert(source.make(GiB + 512 * i, random));
  sets.expect_equal_lookup(GiB + 512 * 150);
  sets.expect_consistent();
  sets.expect_equal_walk();
  sets.expect_equal_lookup(GiB + 512 * 199);
}

// As releases do: the next block is asked for before the one in hand is removed.
TEST(FreeBlocks, CanBeRemovedOnAWalkInEitherDirection) {
  Random random(test_seed());
  for (const bool forward : {false, true}) {
    Blocks source;
    FreeBlocks set(false);
    for (uint64_t i = 0; i < 200; i++) set.insert(source.make(GiB + 512 * i, random));
    uint64_t seen = 0;
    for (Block *b = forward ? set.first() : set.last(), *then = nullptr; b; b = then, seen++) {
      then = forward ? set.next(b) : set.previous(b);
      EXPECT_EQ(b->size, GiB + 512 * (forward ? seen : 199 - seen));
      if (!random.one_in(4)) set.remove(b);
    }
    EXPECT_EQ(seen, 200u);
    uint64_t count = 0;
    uint64_t bytes = 0;
    EXPECT_TRUE(set.is_consistent(&count, &bytes));
  }
}

// Where keys cannot say which block comes first, or no memory can be had.
class ListInPlaceOfATree : public testing::Test {
 protected:
  std::vector<Block*> make(size_t count, Segment* segment = nullptr) {
    std::vector<Block*> blocks;
    for (size_t i = 0; i < count; i++) {
      const uint64_t size = GiB + 512 * random_.below(8);
      blocks.push_back(segment ? source_.make_in(*segment, size, random_)
                               : source_.make(size, random_));
    }
    return blocks;
  }
  void expect_equal() {
    sets_.expect_equal_ends();
    sets_.expect_consistent();
    sets_.expect_equal_walk();
    for (int i = 0; i < 100; i++) sets_.expect_equal_lookup(GiB + 512 * random_.below(16));
  }
  // To blocks in a tree come others that it cannot take, and all go.
  void expect_serves_when_these_come(const std::vector<Block*>& others) {
    const std::vector<Block*> usual = make(300);
    for (Block* block : usual) sets_.insert(block);
    expect_equal();
    for (Block* block : others) sets_.insert(block);
    expect_equal();
    for (Block* block : usual) sets_.remove(block);
    expect_equal();
    for (Block* block : others) sets_.remove(block);
    expect_equal();
  }

  Random random_{test_seed()};
  Blocks source_;
  Sets sets_{true};
};

TEST_F(ListInPlaceOfATree, ServesBlocksOfASegmentWhoseNumberHasMoreThan32Bits) {
  Segment late;
  late.number = (int64_t{1} << 32) + 1;  // its low bits are those of another one
  late.address = source_.segment(0).address;
  late.size = source_.segment(0).size;
  expect_serves_when_these_come(make(200, &late));
}

TEST_F(ListInPlaceOfATree, ServesBlocksOfASegmentOfMoreThan2TiB) {
  Segment large;
  large.number = 1;
  large.address = Address{1} << 50;
  large.size = uint64_t{4} << 40;
  std::vector<Block*> blocks = make(200, &large);
  for (Block* block : blocks) block->address += random_.one_in(2) ? uint64_t{2} << 40 : 0;
  expect_serves_when_these_come(blocks);
}

TEST_F(ListInPlaceOfATree, ServesWhereThereIsNoMemory) {
  if (CACHALOT_HEAP_IS_SANITIZED) GTEST_SKIP() << "a sanitizer has memory of its own";
  sets_.insert_without_memory(make(100));  // not for bins
  expect_equal();
  for (Block* block : make(20)) sets_.insert(block);  // bins are made, and a tree
  expect_equal();
  sets_.insert_without_memory(make(4000));  // more than the tree has nodes for
  expect_equal();
  for (Block* block : make(20)) sets_.insert(block);  // a tree again
  expect_equal();
}

// ---- is_consistent notices what is broken

constexpr size_t kInAList = 6;
constexpr size_t kInATree = 100;

class BrokenFreeBlocks : public testing::TestWithParam<size_t> {
 protected:
  void SetUp() override {
    Random random(1);
    for (size_t i = 0; i < GetParam(); i++) {
      blocks_.push_back(source_.make(GiB + 512 * i, random));
      set_.insert(blocks_.back());
    }
    ASSERT_TRUE(is_consistent());
  }
  bool is_consistent() const {
    uint64_t count = 0;
    uint64_t bytes = 0;
    return set_.is_consistent(&count, &bytes) && count == blocks_.size();
  }

  Blocks source_;
  FreeBlocks set_{false};
  std::vector<Block*> blocks_;
};

class BrokenList : public BrokenFreeBlocks {};
class BrokenTree : public BrokenFreeBlocks {};

TEST_P(BrokenFreeBlocks, AreNoticedWhereASizeIsOfAnotherBin) {
  blocks_[1]->size = 2 * GiB;
  EXPECT_FALSE(is_consistent());
}

TEST_P(BrokenFreeBlocks, AreNoticedWhereTwoAreInTheWrongOrder) {
  std::swap(blocks_[1]->size, blocks_[2]->size);
  EXPECT_FALSE(is_consistent());
}

TEST_P(BrokenFreeBlocks, AreNoticedWhereABlockIsInUse) {
  for (const Block::Flag flag : {Block::kUsed, Block::kWaiting}) {
    blocks_[1]->set_flags(flag);
    EXPECT_FALSE(is_consistent());
  }
  blocks_[1]->set_flags(0);
  EXPECT_TRUE(is_consistent());
}

TEST_P(BrokenTree, IsNoticedWhereAnAddressIsNotThatOfTheKey) {
  blocks_[1]->address += blocks_[1]->size;
  EXPECT_FALSE(is_consistent());
}

TEST_P(BrokenList, IsNoticedWhereALinkLeadsElsewhere) {
  for (FreeNode* FreeNode::*const link : {&FreeNode::left, &FreeNode::right}) {
    for (Block* block : blocks_) {
      FreeNode* const right_one = block->*link;
      for (Block* const elsewhere : {static_cast<Block*>(nullptr), blocks_[0], blocks_[2]}) {
        if (elsewhere == right_one) continue;
        block->*link = elsewhere;
        EXPECT_FALSE(is_consistent());
      }
      block->*link = right_one;
    }
  }
  EXPECT_TRUE(is_consistent());
}

INSTANTIATE_TEST_SUITE_P(FreeBlocks, BrokenList, testing::Values(kInAList));
INSTANTIATE_TEST_SUITE_P(FreeBlocks, BrokenTree, testing::Values(kInATree));
INSTANTIATE_TEST_SUITE_P(ListAndTree, BrokenFreeBlocks, testing::Values(kInAList, kInATree));

}  // namespace
}  // namespace cachalot
