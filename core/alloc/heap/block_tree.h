// SPDX-License-Identifier: MIT OR Apache-2.0
// Blocks sorted by keys of 64 bits: the form of a long bin of FreeBlocks.
//
// Note [Block tree]
// Rationale: where many thousand blocks are free, each block that a search looks at is a miss of
// the caches.
// Approach: a B-tree. A leaf has up to 20 keys and the numbers of their blocks, a node above has up
// to 14 children. A search compares keys only, so it touches no block. The key of a child is at
// most the smallest key below it, and larger than all keys below the child before it.
// Invariants: a leaf is at level 0, any other node one level above its children. No node is empty.
// The first key of a node above the leaves is 0. Behind the last key of a node there are keys of
// all ones, which no block has.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cachalot {

struct Block;

// Owns its nodes; the memory for them is shared with other trees (Nodes). All zeros are an empty
// tree. The lock of the list guards it.
class BlockTree {
 public:
  struct Node;

  // Memory for the nodes of some trees. The system gets it back at the end.
  class Nodes {
   public:
    // False: the system has no memory. Afterwards so many calls of take() are safe.
    bool reserve(unsigned count);
    Node* take(unsigned level);
    void give(Node* node);
    // pre: no node is in use. Zeros are an empty object.
    void unmap();

   private:
    struct Slab;

    Node* free_;
    size_t free_count_;
    Slab* slabs_;
    size_t slab_bytes_;  // of the last one
  };

  enum class Insertion { kNoMemory, kFirst, kLater };

  bool empty() const { return root_ == nullptr; }
  // kFirst: the block is now the first of all. kNoMemory: nothing has changed. pre: the block is of
  // an arena, and no other block of the tree has its key.
  Insertion insert(uint64_t key, const Block* block, Nodes& nodes);
  // pre: a block has this key.
  void remove(uint64_t key, Nodes& nodes);
  // The number of a block (here and below). pre: the tree is not empty.
  uint32_t first() const;
  uint32_t last() const;
  // 0 (here and below): there is none.
  uint32_t first_at_least(uint64_t key) const;
  uint32_t last_before(uint64_t key) const;
  // Gives all nodes back.
  void clear(Nodes& nodes);
  // The auditor: whether the invariants hold.
  bool is_sound() const;

 private:
  class Path;

  void add_child(const Path& path, Node* left, uint64_t key, Node* right, Nodes& nodes);
  void join_or_drop(const Path& path, Node* node, Nodes& nodes);

  // Null: no keys.
  Node* root_ = nullptr;
};

}  // namespace cachalot
