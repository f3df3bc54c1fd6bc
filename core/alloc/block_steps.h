// SPDX-License-Identifier: MIT OR Apache-2.0
// The search for a free block that all paths share. pre: the shard.
#pragma once

#include "alloc/device_allocator.h"

namespace cachalot {

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
  SegmentHeap::remove_free(block);
  return block;
}

}  // namespace cachalot
