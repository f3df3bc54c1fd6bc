// SPDX-License-Identifier: MIT OR Apache-2.0
// The small steps on blocks that all roads share. Inline, because a hit is made of them. Their shard
// is enough for all of them.
#pragma once

#include "alloc/device_allocator.h"

namespace cachalot {

// Spare blocks have no contexts, mark or uses: who recycles one sees to that.
inline Block* DeviceAllocator::new_block(Shard& shard) {
  Block* block = shard.spare_blocks;
  shard.spare_blocks = block->right;
  block->requested = 0;
  return block;
}

inline void DeviceAllocator::recycle(Shard& shard, Block* block) {
  block->address = 0;
  block->home = 0;
  block->right = shard.spare_blocks;
  shard.spare_blocks = block;
  if (has(kContexts | kMarks | kStaleUses)) [[unlikely]]
    forget_contexts(block);
}

// See Note [Registers of a hit] (hot_path.h).
[[gnu::noinline]] inline void DeviceAllocator::forget_contexts(Block* block) {
  block->detail().context = block->detail().segment_context = kNoContext;
  block->detail().mark = 0;
  pending_.forget_stale_uses(block);
}

inline void DeviceAllocator::put_into_free_set(Block* block) {
  Shelf& shelf = shelf_of(block);
  if (has(kMarks)) [[unlikely]]
    block->detail().mark = shelf.pool->search_count;
  shelf.free.insert(block);
}

// The front becomes a new block; the block itself stays as the remainder (9.2).
inline Block* DeviceAllocator::split_front(Shard& shard, Block* block, uint64_t size) {
  Block* front = new_block(shard);
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
    take_from_unmapped_set(block);
  } else {
    take_from_free_set(block);
  }
}

// See Note [Registers of a hit] (hot_path.h).
[[gnu::noinline]] inline void DeviceAllocator::take_from_unmapped_set(Block* block) {
  shelf_of(block).pool->unmapped.erase(block);
}

// 11: the block takes a free neighbour in, and keeps its identity. pre: can_absorb; the neighbour is in
// no set.
[[gnu::always_inline]] inline void DeviceAllocator::absorb_previous(Shard& shard, Block* block) {
  Block* const previous = block->prev;
  block->address = previous->address;
  block->prev = previous->prev;
  block->prev->next = block;
  if (has(kContexts)) [[unlikely]]
    block->detail().segment_context = previous->detail().segment_context;
  block->size += previous->size;
  recycle(shard, previous);
}

[[gnu::always_inline]] inline void DeviceAllocator::absorb_next(Shard& shard, Block* block) {
  Block* const next = block->next;
  block->next = next->next;
  block->next->prev = block;
  block->size += next->size;
  recycle(shard, next);
}

inline void DeviceAllocator::merge_with(Shard& shard, Block* block, Neighbours free) {
  if (free.before) {
    take_from_its_set(block->prev);
    absorb_previous(shard, block);
  }
  if (free.after) {
    take_from_its_set(block->next);
    absorb_next(shard, block);
  }
}

inline DeviceAllocator::Neighbours DeviceAllocator::free_neighbours(const Block* block) {
  return {can_absorb(block, block->prev), can_absorb(block, block->next)};
}

// What a hand-out changes. 5.1: only plain segments have split free blocks. size: what is taken.
inline Counters::Change DeviceAllocator::change_of_hand_out(const Block* block, uint64_t size,
                                                            uint64_t requested, bool splits) {
  const auto bytes = static_cast<int64_t>(size);
  const auto asked = static_cast<int64_t>(requested);
  if (block->is(Block::kExpandable)) return {bytes, asked, 0, bytes};
  if (block->is_split()) [[likely]]
    return {bytes, asked, int64_t{splits} - 1, 0};
  return {bytes, asked, int64_t{splits}, static_cast<int64_t>(block->size)};
}

// What a free changes when the block merges with these.
inline Counters::Change DeviceAllocator::change_of_free(const Block* block, Neighbours free) {
  const auto bytes = static_cast<int64_t>(block->size);
  const auto asked = static_cast<int64_t>(block->requested);
  if (block->is(Block::kExpandable)) return {bytes, asked, 0, bytes};
  const Block* const first = free.before ? block->prev->prev : block->prev;
  const Block* const last = free.after ? block->next->next : block->next;
  const int64_t merged = int64_t{free.before} + int64_t{free.after};
  if (first != last) [[likely]]
    return {bytes, asked, 1 - merged, 0};
  return {bytes, asked, -merged, static_cast<int64_t>(block->segment()->size)};
}

// 6.3, 6.4. Null: there is none.
inline Block* DeviceAllocator::first_fit(const AllocParams& params) const {
  Shelf* shelf = params.shelf();
  Block* block = shelf ? shelf->free.first_at_least(params.size) : nullptr;
  if (!block || !block->is(Block::kExpandable)) [[likely]]
    return block;
  return params.expandable ? step_to_smaller_reach(*shelf, block) : skip_expandable(*shelf, block);
}

// 6. Takes the block out of the free set; null: not found. pre: the shard.
inline Block* DeviceAllocator::get_free_block(AllocParams& params) {
  if (has(kAging)) [[unlikely]]
    params.pool->search_count++;
  Block* block = first_fit(params);
  if (!block) return nullptr;
  if (is_oversize_mismatch(params, block)) [[unlikely]]
    return nullptr;
  shared_.addresses.make_room(block->address);
  take_from_free_set(block);
  return block;
}

}  // namespace cachalot
