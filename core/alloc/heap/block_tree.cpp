// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/heap/block_tree.h"

#include <algorithm>
#include <new>
#include <utility>

#include "alloc/heap/block_arena.h"
#include "base/assert.h"
#include "base/pages.h"

namespace cachalot {
namespace {

constexpr uint64_t kNoKey = ~uint64_t{0};
// One level more takes at least 7 times as many inserts, so no tree comes to this many.
constexpr unsigned kMaxLevels = 24;

}  // namespace

// A leaf or a node above, told by its level. Both kinds have one size, so that one free list serves
// all trees.
struct alignas(64) BlockTree::Node {
  // Sorted keys, each with a value.
  template <class Value, unsigned kMost>
  struct Entries {
    static constexpr unsigned kCapacity = kMost;
    static_assert(kMost % 2 == 0);

    uint64_t keys[kMost];
    Value values[kMost];

    // How many keys are at most this one. Without a branch, which could not be predicted.
    unsigned rank(uint64_t key) const {
      constexpr unsigned kHalf = kMost / 2;
      const unsigned from = keys[kHalf] <= key ? kHalf : 0;
      unsigned rank = from;
      for (unsigned i = 0; i < kHalf; i++) rank += keys[from + i] <= key ? 1 : 0;
      return rank;
    }
    void insert(unsigned used, unsigned at, uint64_t key, Value value) {
      std::copy_backward(keys + at, keys + used, keys + used + 1);
      std::copy_backward(values + at, values + used, values + used + 1);
      keys[at] = key;
      values[at] = value;
    }
    void remove(unsigned used, unsigned at) {
      std::copy(keys + at + 1, keys + used, keys + at);
      std::copy(values + at + 1, values + used, values + at);
      keys[used - 1] = kNoKey;
    }
    // Moves the entry at `from` and all behind it to the end of another node.
    void move(unsigned used, unsigned from, Entries& other, unsigned other_used) {
      std::copy(keys + from, keys + used, other.keys + other_used);
      std::copy(values + from, values + used, other.values + other_used);
      std::fill(keys + from, keys + used, kNoKey);
    }
    void clear() { std::fill(keys, keys + kMost, kNoKey); }
  };

  // Entries in use; `keys` and `values` behind them mean nothing but kNoKey.
  uint32_t count;
  uint32_t level;
  union {
    Entries<uint32_t, 20> leaf;  // numbers of blocks
    Entries<Node*, 14> inner;
    Node* next_free;
  };

  bool is_leaf() const { return level == 0; }
  unsigned capacity() const { return is_leaf() ? leaf.kCapacity : inner.kCapacity; }
  // A node with so few entries is joined with its neighbour. A third, not half: the next insertion
  // should not split what a removal has just joined.
  bool has_few() const { return count < capacity() / 3; }
  void clear() { is_leaf() ? leaf.clear() : inner.clear(); }
  void remove(unsigned at) {
    is_leaf() ? leaf.remove(count, at) : inner.remove(count, at);
    count--;
    if (!is_leaf()) inner.keys[0] = 0;  // keys below all others belong to the first child too
  }
  void move(unsigned from, Node* other) {
    if (is_leaf()) {
      leaf.move(count, from, other->leaf, other->count);
    } else {
      inner.move(count, from, other->inner, other->count);
    }
    other->count += count - from;
    count = from;
  }
  // Moves the second half to a new node, and returns the key that divides the two.
  uint64_t split(Node* behind) {
    move(count / 2, behind);
    return is_leaf() ? behind->leaf.keys[0] : std::exchange(behind->inner.keys[0], 0);
  }
};

// Lies in the first place of its own memory.
struct BlockTree::Nodes::Slab {
  Slab* next;
  size_t bytes;
};

// From the root to the leaf where a key is or would be.
// Noted on the way down, since nodes have no pointer to their parent, which each split would have
// to change.
class BlockTree::Path {
 public:
  struct Step {
    Node* node;
    unsigned at;  // which child of it
  };

  Path(Node* root, uint64_t key) : leaf_(root) {
    while (!leaf_->is_leaf()) {
      CACHALOT_ASSERT(1, leaf_->level < kMaxLevels);
      Step& step = steps_[leaf_->level];
      step = {leaf_, leaf_->inner.rank(key) - 1};
      leaf_ = leaf_->inner.values[step.at];
      is_first_ = is_first_ && step.at == 0;
      prefetch(leaf_);
    }
  }
  Node* leaf() const { return leaf_; }
  bool is_to_first_leaf() const { return is_first_; }
  const Step& at_level(unsigned level) const { return steps_[level]; }
  const Step& above(const Node* node) const { return steps_[node->level + 1]; }

 private:
  // The search in a node touches several lines of it, whose misses can overlap.
  static void prefetch(const Node* node) {
    for (unsigned at = 0; at < sizeof(Node); at += 64)
      __builtin_prefetch(reinterpret_cast<const char*>(node) + at);
  }

  Step steps_[kMaxLevels];
  Node* leaf_;
  bool is_first_ = true;
};

// ---- Nodes

bool BlockTree::Nodes::reserve(unsigned count) {
  constexpr size_t kLeastBytes = 16384;
  constexpr size_t kMostBytes = 1 << 20;
  static_assert(kLeastBytes / sizeof(Node) > kMaxLevels + 1);
  if (free_count_ >= count) return true;
  // Doubled each time: a small tree takes few pages, a large one few calls of the system.
  const size_t bytes = std::clamp(2 * slab_bytes_, kLeastBytes, kMostBytes);
  char* memory = nullptr;
  try {
    memory = static_cast<char*>(map_zero_pages(bytes));
  } catch (const std::bad_alloc&) {
    return false;
  }
  slab_bytes_ = bytes;
  slabs_ = new (memory) Slab{slabs_, bytes};
  // The first place is that of the Slab itself.
  for (size_t at = bytes - sizeof(Node); at != 0; at -= sizeof(Node))
    give(reinterpret_cast<Node*>(memory + at));
  return true;
}

BlockTree::Node* BlockTree::Nodes::take(unsigned level) {
  CACHALOT_ASSERT(1, free_);
  Node* const node = free_;
  free_ = node->next_free;
  free_count_--;
  node->count = 0;
  node->level = level;
  node->clear();
  return node;
}

// Memory stays with the trees: a device that had many free blocks may have them again.
void BlockTree::Nodes::give(Node* node) {
  node->next_free = free_;
  free_ = node;
  free_count_++;
}

void BlockTree::Nodes::unmap() {
  while (slabs_) {
    Slab* const slab = std::exchange(slabs_, slabs_->next);
    unmap_pages(slab, slab->bytes);
  }
}

// ---- Changes

BlockTree::Insertion BlockTree::insert(uint64_t key, const Block* block, Nodes& nodes) {
  if (!root_) {
    if (!nodes.reserve(1)) return Insertion::kNoMemory;
    root_ = nodes.take(0);
  }
  const Path path(root_, key);
  Node* leaf = path.leaf();
  bool is_first = path.is_to_first_leaf();
  if (leaf->count == leaf->capacity()) {
    // A split can reach the root, which then gets a parent. Half-way it could not be taken back.
    if (!nodes.reserve(root_->level + 2)) return Insertion::kNoMemory;
    Node* const behind = nodes.take(0);
    const uint64_t border = leaf->split(behind);
    add_child(path, leaf, border, behind, nodes);
    if (key >= border) {
      leaf = behind;
      is_first = false;
    }
  }
  const unsigned at = leaf->leaf.rank(key);
  CACHALOT_ASSERT(1, at == 0 || leaf->leaf.keys[at - 1] != key);
  leaf->leaf.insert(leaf->count++, at, key, BlockArena::number_of(block));
  return is_first && at == 0 ? Insertion::kFirst : Insertion::kLater;
}

// The parent of `left` learns of the node behind it. pre: a node for each level and one more is
// reserved.
void BlockTree::add_child(const Path& path, Node* left, uint64_t key, Node* right, Nodes& nodes) {
  while (left != root_) {
    const auto& [parent, child] = path.above(left);
    const unsigned at = child + 1;
    if (parent->count < parent->capacity()) {
      parent->inner.insert(parent->count++, at, key, right);
      return;
    }
    Node* const behind = nodes.take(parent->level);
    const uint64_t border = parent->split(behind);
    Node* const home = at > parent->count ? behind : parent;
    const unsigned place = home == behind ? at - parent->count : at;
    home->inner.insert(home->count++, place, key, right);
    left = parent;
    key = border;
    right = behind;
  }
  root_ = nodes.take(left->level + 1);
  root_->inner.insert(root_->count++, 0, 0, left);
  root_->inner.insert(root_->count++, 1, key, right);
}

void BlockTree::remove(uint64_t key, Nodes& nodes) {
  CACHALOT_ASSERT(1, root_);
  const Path path(root_, key);
  Node* const leaf = path.leaf();
  const unsigned at = leaf->leaf.rank(key) - 1;
  CACHALOT_ASSERT(1, at < leaf->count && leaf->leaf.keys[at] == key);
  leaf->remove(at);
  if (leaf->has_few()) join_or_drop(path, leaf, nodes);
}

// Drops an empty node. Joins one with few entries to the node beside it, where a quarter stays free:
// the next inserts would split a fuller one again.
void BlockTree::join_or_drop(const Path& path, Node* node, Nodes& nodes) {
  while (node != root_ && node->has_few()) {
    const auto& [parent, child] = path.above(node);
    unsigned at = child;
    if (node->count != 0) {
      if (parent->count == 1) return;
      if (at + 1 < parent->count) at++;
      Node* const left = parent->inner.values[at - 1];
      Node* const right = parent->inner.values[at];
      if (left->count + right->count > left->capacity() * 3 / 4) return;
      if (!right->is_leaf()) right->inner.keys[0] = parent->inner.keys[at];
      right->move(0, left);
      node = right;
    }
    nodes.give(node);
    parent->remove(at);
    node = parent;
  }
  while (!root_->is_leaf() && root_->count == 1)
    nodes.give(std::exchange(root_, root_->inner.values[0]));
  if (root_->count == 0) nodes.give(std::exchange(root_, nullptr));
}

namespace {

using Node = BlockTree::Node;

void give_all(Node* node, BlockTree::Nodes& nodes) {
  for (unsigned i = 0; !node->is_leaf() && i < node->count; i++)
    give_all(node->inner.values[i], nodes);
  nodes.give(node);
}

}  // namespace

void BlockTree::clear(Nodes& nodes) {
  if (root_) give_all(std::exchange(root_, nullptr), nodes);
}

// ---- Searches

namespace {

uint32_t first_below(const Node* node) {
  CACHALOT_ASSERT(1, node);
  while (!node->is_leaf()) node = node->inner.values[0];
  return node->leaf.values[0];
}

uint32_t last_below(const Node* node) {
  CACHALOT_ASSERT(1, node);
  while (!node->is_leaf()) node = node->inner.values[node->count - 1];
  return node->leaf.values[node->count - 1];
}

}  // namespace

uint32_t BlockTree::first() const { return first_below(root_); }
uint32_t BlockTree::last() const { return last_below(root_); }

// The leaf of a key may end before it. Then the first key of the next leaf is the answer, which the
// path finds without a search.
uint32_t BlockTree::first_at_least(uint64_t key) const {
  if (!root_) return 0;
  if (key == 0) return first();
  const Path path(root_, key - 1);
  const Node* const leaf = path.leaf();
  const unsigned at = leaf->leaf.rank(key - 1);
  if (at < leaf->count) return leaf->leaf.values[at];
  for (unsigned level = 1; level <= root_->level; level++) {
    const auto& [node, child] = path.at_level(level);
    if (child + 1 < node->count) return first_below(node->inner.values[child + 1]);
  }
  return 0;
}

uint32_t BlockTree::last_before(uint64_t key) const {
  if (!root_ || key == 0) return 0;
  const Path path(root_, key - 1);
  const Node* const leaf = path.leaf();
  const unsigned rank = leaf->leaf.rank(key - 1);
  if (rank != 0) return leaf->leaf.values[rank - 1];
  for (unsigned level = 1; level <= root_->level; level++) {
    const auto& [node, child] = path.at_level(level);
    if (child != 0) return last_below(node->inner.values[child - 1]);
  }
  return 0;
}

// ---- The auditor

namespace {

// Whether keys rise from `begin` and stay below `end`.
template <class Entries>
bool are_sorted(const Entries& entries, unsigned count, uint64_t begin, uint64_t end) {
  for (unsigned i = 0; i < count; i++) {
    if (entries.keys[i] < begin || entries.keys[i] >= end) return false;
    begin = entries.keys[i] + 1;
  }
  return std::all_of(entries.keys + count, std::end(entries.keys),
                     [](uint64_t key) { return key == kNoKey; });
}

// Keys below the node are from `begin` to `end`, the latter excluded.
bool is_node_sound(const Node* node, uint64_t begin, uint64_t end) {
  if (node->count == 0 || node->count > node->capacity()) return false;
  if (node->is_leaf()) return are_sorted(node->leaf, node->count, begin, end);
  if (node->inner.keys[0] != 0 || !are_sorted(node->inner, node->count, 0, end)) return false;
  for (unsigned i = 0; i < node->count; i++) {
    const Node* const child = node->inner.values[i];
    const uint64_t child_begin = i == 0 ? begin : node->inner.keys[i];
    const uint64_t child_end = i + 1 == node->count ? end : node->inner.keys[i + 1];
    if (child->level + 1 != node->level || child_begin < begin) return false;
    if (!is_node_sound(child, child_begin, child_end)) return false;
  }
  return true;
}

}  // namespace

bool BlockTree::is_sound() const { return !root_ || is_node_sound(root_, 0, kNoKey); }

}  // namespace cachalot
