// SPDX-License-Identifier: MIT OR Apache-2.0
// The block objects of one shard that stand for no block at present.
#pragma once

#include <cstdint>

#include "alloc/heap/block_arena.h"
#include "base/assert.h"

namespace cachalot {

// Owns the chain of objects, linked through `next`. An object goes from the arena to the supply of
// one shard and stays with that shard, because the arena notes the shard as its owner.
// pre: the shard's lock, or the whole device.
class BlockSupply {
 public:
  explicit BlockSupply(Shard* owner) : owner_(owner) {}

  bool is_empty() const { return !first_; }
  // An object without contexts, mark and uses; nothing was requested of it. pre: there is one.
  Block* take() {
    CACHALOT_ASSERT(1, first_ != nullptr);
    Block* const block = first_;
    first_ = block->next;
    block->requested = 0;
    return block;
  }
  // pre: the object has no contexts, mark and uses.
  void give(Block* block) {
    block->address = 0;
    block->home = 0;
    block->next = first_;
    first_ = block;
  }
  // So that take() can be called so often. Throws std::bad_alloc.
  void reserve(uint32_t count, BlockArena& arena);

 private:
  Block* more(BlockArena& arena);  // linked; one at least

  Shard* const owner_;
  Block* first_ = nullptr;
  uint32_t asked_ = 0;  // of the arena so far: how many to ask for next
};

}  // namespace cachalot
