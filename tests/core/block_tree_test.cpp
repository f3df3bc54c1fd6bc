// SPDX-License-Identifier: MIT OR Apache-2.0
// BlockTree against a map with the same keys.
#include "alloc/heap/block_tree.h"

#include <gtest/gtest.h>

#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "../sanitizers.h"
#include "../test_seed.h"
#include "alloc/heap/block_arena.h"
#include "process_memory.h"

namespace cachalot {
namespace {

using Insertion = BlockTree::Insertion;

Shard* const kOwner = reinterpret_cast<Shard*>(64);  // never looked at

// A tree with blocks of an arena, and the map that it has to be like.
class Tree {
 public:
  ~Tree() {
    tree_.clear(nodes_);
    nodes_.unmap();
  }

  Insertion insert(uint64_t key) {
    if (!spare_) spare_ = arena_.add(kOwner, 1000);
    Block* const block = std::exchange(spare_, spare_->next);
    const Insertion done = tree_.insert(key, block, nodes_);
    if (done != Insertion::kNoMemory) numbers_[key] = BlockArena::number_of(block);
    return done;
  }
  void remove(uint64_t key) {
    tree_.remove(key, nodes_);
    numbers_.erase(key);
  }
  const std::map<uint64_t, uint32_t>& numbers() const { return numbers_; }
  BlockTree& tree() { return tree_; }

  void expect_equal_searches(uint64_t key) const {
    const auto found = numbers_.lower_bound(key);
    ASSERT_EQ(tree_.first_at_least(key), found == numbers_.end() ? 0 : found->second);
    ASSERT_EQ(tree_.last_before(key), found == numbers_.begin() ? 0 : std::prev(found)->second);
  }
  void expect_equal() const {
    ASSERT_TRUE(tree_.is_sound());
    ASSERT_EQ(tree_.empty(), numbers_.empty());
    if (numbers_.empty()) return;
    ASSERT_EQ(tree_.first(), numbers_.begin()->second);
    ASSERT_EQ(tree_.last(), numbers_.rbegin()->second);
  }
  void expect_equal_walk() const {
    for (const auto& [key, number] : numbers_) ASSERT_EQ(tree_.first_at_least(key), number);
  }

 private:
  BlockArena arena_;
  Block* spare_ = nullptr;
  BlockTree::Nodes nodes_{};
  BlockTree tree_;
  std::map<uint64_t, uint32_t> numbers_;
};

struct Keys {
  std::string name;
  std::function<uint64_t(Random&)> key;
};

const Keys kKeys[] = {
    {"anywhere", [](Random& random) { return random.bits() >> 1; }},
    {"close_together", [](Random& random) { return random.below(6000); }},
    {"in_clusters", [](Random& random) { return (random.below(50) << 40) + random.below(200); }},
    {"at_the_ends",
     [](Random& random) {
       return random.one_in(2) ? random.below(2000) : UINT64_MAX - 1 - random.below(2000);
     }},
};

class BlockTreeWithKeys : public testing::TestWithParam<Keys> {};

// Up to some thousands and down to none, twice.
TEST_P(BlockTreeWithKeys, IsLikeAMap) {
  Random random(test_seed());
  Tree tree;
  std::vector<uint64_t> keys(4000);
  for (uint64_t& key : keys) key = GetParam().key(random);
  for (const uint64_t removals_in_16 : {1, 15, 4, 15}) {
    for (int step = 0; step < 20000; step++) {
      const uint64_t key = random.pick(keys);
      const bool removes = random.below(16) < removals_in_16;
      const bool is_there = tree.numbers().count(key) != 0;
      if (removes && is_there) tree.remove(key);
      if (!removes && !is_there) {
        const bool is_first = tree.numbers().empty() || key < tree.numbers().begin()->first;
        ASSERT_EQ(tree.insert(key), is_first ? Insertion::kFirst : Insertion::kLater);
      }
      tree.expect_equal_searches(key);
      tree.expect_equal_searches(key + 1);
      tree.expect_equal_searches(GetParam().key(random));
      if (random.one_in(50)) tree.expect_equal();
      if (HasFatalFailure()) return;
    }
    tree.expect_equal_walk();
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(BlockTree, BlockTreeWithKeys, testing::ValuesIn(kKeys),
                         [](const auto& test) { return test.param.name; });

// How frees of neighbours come, and how requests take them.
TEST(BlockTree, RisesAndFallsInEitherDirection) {
  constexpr uint64_t kCount = 5000;
  for (const bool rises_forward : {true, false}) {
    for (const bool falls_forward : {true, false}) {
      Tree tree;
      for (uint64_t i = 0; i < kCount; i++) tree.insert(rises_forward ? i : kCount - 1 - i);
      tree.expect_equal();
      tree.expect_equal_walk();
      for (uint64_t i = 0; i < kCount; i++) {
        tree.remove(falls_forward ? i : kCount - 1 - i);
        if (i % 100 == 0) tree.expect_equal();
        if (HasFatalFailure()) return;
      }
      EXPECT_TRUE(tree.tree().empty());
    }
  }
}

TEST(BlockTree, UsesItsNodesAgain) {
  if (CACHALOT_HEAP_IS_SANITIZED) GTEST_SKIP() << "a sanitizer has memory of its own";
  Random random(test_seed());
  BlockArena arena;
  const Block* const block = arena.add(kOwner, 1);
  std::vector<uint64_t> keys(20000);
  for (uint64_t& key : keys) key = random.bits() >> 1;
  BlockTree::Nodes nodes{};
  BlockTree tree;
  uint64_t after_first_round = 0;
  for (int round = 0; round < 10; round++) {
    for (const uint64_t key : keys) tree.insert(key, block, nodes);
    std::swap(random.pick(keys), random.pick(keys));
    for (const uint64_t key : keys) tree.remove(key, nodes);
    ASSERT_TRUE(tree.empty());
    if (round == 0) after_first_round = anonymous_bytes();
  }
  EXPECT_LE(anonymous_bytes(), after_first_round + 64 * KiB);
  nodes.unmap();
}

TEST(BlockTree, IsAsItWasWhereThereIsNoMemory) {
  if (CACHALOT_HEAP_IS_SANITIZED) GTEST_SKIP() << "a sanitizer has memory of its own";
  BlockArena arena;
  const Block* const block = arena.add(kOwner, 1);
  const uint32_t number = BlockArena::number_of(block);
  BlockTree::Nodes nodes{};
  BlockTree tree;
  // How many keys from this one on find room.
  const auto insert_from = [&](uint64_t key) {
    const NoNewMemory none;
    uint64_t count = 0;
    while (count < 100000 && tree.insert(key + count, block, nodes) != Insertion::kNoMemory)
      count++;
    return count;
  };
  EXPECT_EQ(insert_from(0), 0u);
  EXPECT_TRUE(tree.empty());
  ASSERT_EQ(tree.insert(0, block, nodes), Insertion::kFirst);
  const uint64_t end = 1 + insert_from(1);
  ASSERT_GT(end, 20u) << "one node";
  ASSERT_LT(end, 5000u) << "more than the first piece of memory has room for";
  EXPECT_TRUE(tree.is_sound());
  for (uint64_t key = 0; key < end; key++) ASSERT_EQ(tree.first_at_least(key), number);
  EXPECT_EQ(tree.first_at_least(end), 0u);
  EXPECT_EQ(tree.insert(end, block, nodes), Insertion::kLater) << "there is memory again";
  tree.remove(0, nodes);
  EXPECT_TRUE(tree.is_sound());
  nodes.unmap();
}

// ---- is_sound notices what is broken. A node begins with its count and level, then come its keys.

uint64_t* root_words(Tree& tree) { return *reinterpret_cast<uint64_t**>(&tree.tree()); }

// Whether it is not noticed that a word of the root has become another one.
bool survives(Tree& tree, size_t word, uint64_t other) {
  uint64_t& place = root_words(tree)[word];
  const uint64_t right_one = std::exchange(place, other);
  const bool is_sound = tree.tree().is_sound();
  place = right_one;
  return is_sound;
}

TEST(BlockTree, IsNotSoundWhereALeafIsOutOfOrder) {
  Tree tree;
  for (uint64_t key = 1; key <= 12; key++) tree.insert(key * 1000);
  ASSERT_TRUE(tree.tree().is_sound());
  for (const uint64_t count : {0, 11, 13, 21}) EXPECT_FALSE(survives(tree, 0, count)) << count;
  for (size_t key = 1; key <= 11; key++) EXPECT_FALSE(survives(tree, key, 12000)) << key;
  for (size_t key = 2; key <= 12; key++) EXPECT_FALSE(survives(tree, key, 1000)) << key;
  for (size_t none = 13; none <= 20; none++) EXPECT_FALSE(survives(tree, none, 20000)) << none;
}

TEST(BlockTree, IsNotSoundWhereChildrenAreNotBetweenTheirKeys) {
  Tree tree;
  for (uint64_t key = 1; key <= 100; key++) tree.insert(key * 1000);
  ASSERT_TRUE(tree.tree().is_sound());
  const uint64_t count = root_words(tree)[0] & UINT32_MAX;
  ASSERT_GE(count, 5u);
  ASSERT_LE(count, 14u) << "one root above leaves";
  EXPECT_FALSE(survives(tree, 1, 1)) << "the first key";
  for (size_t key = 2; key <= count; key++) {
    const uint64_t border = root_words(tree)[key];
    EXPECT_FALSE(survives(tree, key, border + 1)) << key;
    EXPECT_FALSE(survives(tree, key, border - 1001)) << key;
  }
  EXPECT_FALSE(survives(tree, 0, root_words(tree)[0] + (uint64_t{1} << 32))) << "the level";
}

}  // namespace
}  // namespace cachalot
