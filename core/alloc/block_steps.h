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
    block->detail().context = block->detail().segment_context = kNoContext;
    block->detail().mark = 0;
  }
  if (!stale_uses_.empty()) [[unlikely]]
    stale_uses_.erase(block);
}

inline void DeviceAllocator::put_into_free_set(Block* block) {
  Shelf& shelf = shelf_of(block);
  if (has(kMarks)) [[unlikely]]
    block->detail().mark = shelf.pool->search_count;
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

// Whether the block can take the neighbour in: free, and of the same mapped state.
inline bool DeviceAllocator::can_absorb(const Block* block, const Block* neighbour) {
  constexpr uint64_t kState = Block::kUsed | Block::kWaiting | Block::kUnmapped;
  return (neighbour->home & kState) == (block->home & Block::kUnmapped);
}

inline void DeviceAllocator::take_from_its_set(Block* block) {
  if (block->is(Block::kUnmapped)) {
    shelf_of(block).pool->unmapped.erase(block);
  } else {
    take_from_free_set(block);
  }
}

// 11: the block takes a free neighbour in, and keeps its identity. Returns the bytes gained.
inline uint64_t DeviceAllocator::absorb_previous(Block* block) {
  Block* const previous = block->prev;
  if (!can_absorb(block, previous)) return 0;
  take_from_its_set(previous);
  block->address = previous->address;
  block->prev = previous->prev;
  block->prev->next = block;
  if (has(kContexts)) [[unlikely]]
    block->detail().segment_context = previous->detail().segment_context;
  const uint64_t gained = previous->size;
  block->size += gained;
  recycle(previous);
  return gained;
}

inline uint64_t DeviceAllocator::absorb_next(Block* block) {
  Block* const next = block->next;
  if (!can_absorb(block, next)) return 0;
  take_from_its_set(next);
  block->next = next->next;
  block->next->prev = block;
  const uint64_t gained = next->size;
  block->size += gained;
  recycle(next);
  return gained;
}

// On both sides; says in `change` what that does to the inactive splits of a plain segment.
inline void DeviceAllocator::merge_free_block(Block* block, Counters::HandOut* change) {
  const uint64_t before = absorb_previous(block);
  const uint64_t after = absorb_next(block);
  const bool is_split = block->is_split();
  change->split_count = int64_t{is_split} - int64_t{before != 0} - int64_t{after != 0};
  change->split_bytes = static_cast<int64_t>((is_split ? block->size : 0) - before - after);
}

// 6.3, 6.4. Null: there is none.
inline Block* DeviceAllocator::first_fit(const AllocParams& params) const {
  const Shelf* shelf = params.pool->find(params.stream);
  Block* block = shelf ? shelf->free.first_at_least(params.size) : nullptr;
  if (!block || !block->is(Block::kExpandable)) [[likely]]
    return block;
  return params.expandable ? step_to_smaller_reach(*shelf, block) : skip_expandable(*shelf, block);
}

// 6. Takes the block out of the free set; null: not found.
inline Block* DeviceAllocator::get_free_block(AllocParams& params) {
  if (has(kAging)) [[unlikely]]
    params.pool->search_count++;
  Block* block = first_fit(params);
  if (!block) return nullptr;
  if (has(kOversize) && is_oversize_mismatch(params, block)) [[unlikely]]
    return nullptr;
  take_from_free_set(block);
  return block;
}

}  // namespace cachalot
