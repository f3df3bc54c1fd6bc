// SPDX-License-Identifier: MIT OR Apache-2.0
// The small steps on blocks that all roads share. Inline, because a hit is made of them.
#pragma once

#include "alloc/device_allocator.h"

namespace cachalot {

// Spare blocks have no contexts, mark or uses: who recycles one sees to that.
inline Block* DeviceAllocator::new_block() {
  Block* block = spare_blocks_;
  spare_blocks_ = block->right;
  block->requested = 0;
  return block;
}

inline void DeviceAllocator::recycle(Block* block) {
  block->address = 0;
  block->home = 0;
  block->right = spare_blocks_;
  spare_blocks_ = block;
  if (has(kContexts | kMarks)) [[unlikely]] {
    block->context = block->segment_context = kNoContext;
    block->mark = 0;
  }
  if (!stale_uses_.empty()) [[unlikely]]
    stale_uses_.erase(block);
}

inline void DeviceAllocator::put_into_free_set(Block* block) {
  Shelf& shelf = shelf_of(block);
  if (has(kMarks)) [[unlikely]]
    block->mark = shelf.pool->search_count;
  shelf.free.insert(block);
}

// The front becomes a new block; the block itself stays as the remainder (9.2).
inline Block* DeviceAllocator::split_front(Block* block, uint64_t size) {
  Block* front = new_block();
  front->address = block->address;
  front->size = size;
  front->home = block->home;
  front->prev = block->prev;
  front->next = block;
  block->prev->next = front;
  block->prev = front;
  block->address += size;
  block->size -= size;
  return front;
}

// 11: the block takes a free neighbour of the same mapped state in, and keeps its identity.
inline bool DeviceAllocator::absorb(Block* block, Block* neighbour) {
  constexpr uint64_t kState = Block::kUsed | Block::kWaiting | Block::kUnmapped;
  if ((neighbour->home & kState) != (block->home & Block::kUnmapped)) return false;
  if (neighbour->is(Block::kUnmapped)) {
    shelf_of(block).pool->unmapped.erase(neighbour);
  } else {
    take_from_free_set(neighbour);
  }
  if (block->prev == neighbour) {
    block->address = neighbour->address;
    block->prev = neighbour->prev;
    block->prev->next = block;
    if (has(kContexts)) [[unlikely]]
      block->segment_context = neighbour->segment_context;
  } else {
    block->next = neighbour->next;
    block->next->prev = block;
  }
  block->size += neighbour->size;
  recycle(neighbour);
  return true;
}

// 6. Takes the block out of the free set; null: not found.
inline Block* DeviceAllocator::get_free_block(AllocParams& params) {
  if (has(kAging)) [[unlikely]]
    params.pool->search_count++;
  Shelf* shelf = params.pool->find(params.stream);
  if (!shelf) return nullptr;
  Block* block = shelf->free.first_at_least(params.size);
  if (!block) return nullptr;
  if (block->is(Block::kExpandable)) [[unlikely]] {
    block =
        params.expandable ? step_to_smaller_reach(*shelf, block) : skip_expandable(*shelf, block);
    if (!block) return nullptr;
  }
  if (has(kOversize) && is_oversize_mismatch(params, block)) [[unlikely]]
    return nullptr;
  shelf->free.remove(block);
  return block;
}

}  // namespace cachalot
