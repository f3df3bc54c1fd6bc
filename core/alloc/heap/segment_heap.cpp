// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/heap/segment_heap.h"

#include <iterator>
#include <utility>

namespace cachalot {

// ---- Segments

// Either a segment begins inside the range, or the one before reaches into it. Differences instead
// of ends: a range may end at the last address.
const Segment* SegmentHeap::segment_in(Address address, uint64_t size) const {
  const auto next = segments_.lower_bound(address);
  if (next != segments_.end() && next->first - address < size) return next->second.get();
  if (next == segments_.begin()) return nullptr;
  const Segment& before = *std::prev(next)->second;
  return address - before.address < before.size ? &before : nullptr;
}

// A walk: addresses within blocks are asked for by few calls, and the address table has only where blocks begin.
Block* SegmentHeap::block_around(Address address) const {
  Block* block = segment_in(address, 1)->first();
  while (address - block->address >= block->size) block = block->next;
  return block;
}

std::vector<Block*> SegmentHeap::used_blocks(const PrivatePool& pool) const {
  std::vector<Block*> used;
  for_each_block([&](Block* block) {
    if (block->is(Block::kUsed) && block->segment()->pool->owner == &pool) used.push_back(block);
  });
  return used;
}

// Nothing can fail behind the insertion into the map, since the block object is reserved.
Block* SegmentHeap::add_segment(std::unique_ptr<Segment> owned, StreamFreeList& list) {
  Segment* segment = owned.get();
  segment->pool = list.pool;
  segment->list = &list;
  segments_.emplace(segment->address, std::move(owned));
  Block* block = list.supply->take();
  block->address = segment->address;
  block->size = segment->size;
  block->set_home(segment, 0);
  block->prev = block->next = &segment->ends;
  // Used, so that no merge goes beyond the segment.
  segment->ends.set_home(segment, Block::kUsed);
  segment->ends.prev = segment->ends.next = block;
  list.segments++;
  return block;
}

void SegmentHeap::remove_segment(Block* only_block) {
  CACHALOT_ASSERT(1, !only_block->is_split());
  StreamFreeList& list = list_of(only_block);
  list.segments--;
  const Address address = only_block->segment()->address;  // recycle() clears the block's home
  recycle(*list.supply, only_block);
  segments_.erase(address);
}

uint64_t SegmentHeap::releasable_bytes(const Block* free_block) const {
  const Address begin = free_block->address;
  if (!free_block->is(Block::kExpandable)) {
    const bool stays = free_block->is_split() || pins_.has_any(begin, begin + free_block->size);
    return stays ? 0 : free_block->size;
  }
  uint64_t bytes = 0;
  const auto [first, end] = free_block->segment()->pages->whole_pages(begin, free_block->size);
  pins_.for_each_unpinned(first, end, [&](Address from, Address to) { bytes += to - from; });
  return bytes;
}

uint64_t SegmentHeap::releasable_bytes(const BlockPool& pool) const {
  uint64_t bytes = 0;
  for (auto& [stream, list] : pool.lists) {
    for (const Block* b = list.free.first(); b; b = list.free.next(b)) bytes += releasable_bytes(b);
  }
  return bytes;
}

// ---- Steps on blocks

// pre: an object is reserved. The new block takes over the flags, so a free block gives two free
// ones.
Block* SegmentHeap::split_back(Block* block, uint64_t size) {
  CACHALOT_ASSERT(1, size > 0 && size < block->size);
  Block* back = list_of(block).supply->take();
  block->size -= size;
  back->address = block->address + block->size;
  back->size = size;
  back->home = block->home;
  back->prev = block;
  back->next = block->next;
  block->next->prev = back;
  block->next = back;
  return back;
}

// The neighbours leave their sets first: a set finds a block by its size and address, which change
// next.
void SegmentHeap::merge(Block* block, Neighbours free) {
  BlockSupply& supply = *list_of(block).supply;
  if (free.before) {
    remove_from_its_set(block->prev);
    absorb_previous(supply, block);
  }
  if (free.after) {
    remove_from_its_set(block->next);
    absorb_next(supply, block);
  }
}

void SegmentHeap::remove_from_its_set(Block* block) {
  if (block->is(Block::kUnmapped)) {
    list_of(block).pool->unmapped.erase(block);
  } else {
    remove_free(block);
  }
}

// See Note [Registers of a hit] (hot_path.h).
[[gnu::noinline]] void SegmentHeap::forget_details(Block* block) {
  block->detail().context = block->detail().segment_context = kNoContext;
  block->detail().mark = 0;
  if (has(kStaleUses)) recycled_(block);
}

}  // namespace cachalot
