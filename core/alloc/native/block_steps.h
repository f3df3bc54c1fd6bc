// SPDX-License-Identifier: MIT OR Apache-2.0
// The search for a free block that all paths share. pre: the shard.
#pragma once

#include "alloc/native/device_allocator.h"

namespace cachalot {

// [core 6.3, 6.4] Null: there is none.
inline Block* DeviceAllocator::best_fit(const AllocParams& params) const {
  StreamFreeList* list = params.list();
  Block* block = list ? list->free.first_at_least(params.size) : nullptr;
  if (!block || !block->is(Block::kExpandable)) [[likely]]
    return block;
  return params.expandable ? step_to_smaller_reach(*list, block) : skip_expandable(*list, block);
}

// [core 6] Takes the block out of the free set; null: not found. pre: the shard.
inline Block* DeviceAllocator::get_free_block(AllocParams& params) {
  if (has(kAging)) [[unlikely]]
    params.pool->search_count++;
  Block* block = best_fit(params);
  if (!block) return nullptr;
  if (is_oversize_mismatch(params, block)) [[unlikely]]
    return nullptr;
  shared_.addresses.make_room(block->address);
  SegmentHeap::remove_free(block);
  return block;
}

}  // namespace cachalot
